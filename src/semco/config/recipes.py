"""Recipes: named layers of configuration values, kept as data in recipes.yaml.

A recipe may extend others (``extends``), which are applied before all recipes that were asked for. The name of a method
is a recipe too: it chooses the method. So ``cifar100-2500-mu7,semco,no-grouping`` is a cell of the paper's Table 1 with
the paper's settings, the paper's method, and one ablation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import yaml

from semco.errors import unknown

Values = dict[str, Any]

# Recipes that do not change a published setting.
NEUTRAL = {"paper"}
OURS = "SemCo+ (ours), not published"


@dataclass(frozen=True)
class Recipe:
    """A named layer of configuration values."""

    about: str
    values: Values
    extends: tuple[str, ...] = ()
    published: Mapping[str, str] = field(default_factory=dict)  # method -> error rate in the paper, percent


@cache
def recipes() -> Mapping[str, Recipe]:
    """Return all recipes but the methods, by name."""
    content = yaml.safe_load(Path(__file__).with_name("recipes.yaml").read_text(encoding="utf-8"))
    named = {
        name: Recipe(**{**entry, "extends": tuple(entry.get("extends", ()))})
        for name, entry in content["recipes"].items()
    }
    return named | _paper_cells(content["paper_data"])


def _paper_cells(data_sets: Mapping[str, Any]) -> dict[str, Recipe]:
    """Return one recipe per cell (data set, number of labels, mu) of the paper's Tables 1 and 2."""
    cells = {}
    for data, entry in data_sets.items():
        for cell, published in entry["published"].items():
            labels, mu = cell.split("-mu")
            about = f"{data}, {int(labels):,} labels, mu {mu}: the paper's setting"
            own = {"data": {"num_labels": int(labels)}, "training": {"mu": int(mu)}}
            values = {
                section: {**entry["values"].get(section, {}), **own.get(section, {})}
                for section in {**entry["values"], **own}
            }
            cells[f"{data}-{cell}"] = Recipe(about, values, ("paper",), published)
    return cells


def find_recipe(name: str) -> Recipe:
    """Return a recipe, or the layer that chooses the method of that name."""
    if name in recipes():
        return recipes()[name]
    methods = method_titles()
    if name in methods:
        return Recipe(methods[name], {"method": {"name": name}})
    raise unknown("recipe", name, [*recipes(), *methods], "'semco recipes' and 'semco methods' list all.")


def method_titles() -> dict[str, str]:
    """Return the title of every method, by name."""
    return {name: method.title for name, method in import_module("semco.methods").Method.registry.items()}


def expand_recipes(names: Sequence[str]) -> dict[str, Recipe]:
    """Return the recipes that were asked for, preceded by those that they extend; each once."""
    found = {name: find_recipe(name) for name in (each.strip() for each in names)}
    bases = {base: find_recipe(base) for recipe in found.values() for base in recipe.extends}
    return bases | {name: recipe for name, recipe in found.items() if name not in bases}


def published_error(names: Sequence[str]) -> str:
    """Return the published error of a combination of recipes, "" if it is not what was published.

    Published is a cell of the paper's tables with the method of a row, and nothing else.
    """
    cells = [name for name in names if name in recipes() and recipes()[name].published]
    methods = [name for name in names if name not in recipes()]
    others = set(names) - set(cells) - set(methods) - NEUTRAL
    if len(cells) != 1 or len(methods) > 1 or others:
        return ""
    method = methods[0] if methods else "semco"
    return OURS if method == "semco_plus" else recipes()[cells[0]].published.get(method, "")
