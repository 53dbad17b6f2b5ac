"""Names of methods and experiments in a report."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from semco.config import Config, flat_fields
from semco.methods import Method
from semco.report.runs import Run
from semco.run.identity import experiment_fields

LONGEST_VALUE = 24  # characters of a field's value in the name of an experiment


def group_by_experiment(runs: Sequence[Run]) -> dict[str, list[Run]]:
    """Group runs whose configurations differ only in the seed, by a unique name for each experiment."""
    by_config: dict[str, list[Run]] = {}
    for run in runs:
        by_config.setdefault(json.dumps(experiment_fields(run.config), sort_keys=True), []).append(run)
    groups = list(by_config.values())
    return dict(zip(_unique_names([group[0] for group in groups]), groups, strict=True))


def variant_names(runs: Sequence[Run]) -> dict[str, str]:
    """Return the name of the experiment of each variant of a comparison."""
    return {run.variant: name for name, group in group_by_experiment(runs).items() for run in group}


def method_title(run: Run) -> str:
    """Return the title of the run's method without its citation, or its name if this version does not know it."""
    known = Method.registry.get(run.method)
    return known.title.partition(" (")[0] if known else run.method


def letter_names(names: Sequence[str], longest: int) -> dict[str, str]:
    """Return a short name for each name, ``b SemCo+``, if one of them is longer than ``longest``; else the names."""
    if max(map(len, names), default=0) <= longest:
        return {name: name for name in names}
    starts = [re.split(r" \(|\+(?=\w)", name)[0] for name in names]  # without fields, recipes and settings
    return {name: f"{_letter(i)} {start}" for i, (name, start) in enumerate(zip(names, starts, strict=True))}


def legend(short_names: Mapping[str, str]) -> list[str]:
    """Return a line for each name with a letter, ``b: SemCo+ (grouping=False)``, except for those given in full."""
    with_letter = [(name, *short.split(" ", 1)) for name, short in short_names.items() if short != name]
    return [f"{letter}: {name}" for name, letter, start in with_letter if start != name]


def _letter(number: int) -> str:
    """Return ``a`` to ``z``, then ``a2`` to ``z2``."""
    return chr(ord("a") + number % 26) + (str(number // 26 + 1) if number >= 26 else "")


def _unique_names(runs: Sequence[Run]) -> list[str]:
    """Return a name for each run of a different experiment; equal names are numbered."""
    names = [_variant_name(run, runs) if run.variant else _experiment_name(run, runs) for run in runs]
    return [f"{name} #{i + 1}" if names.count(name) > 1 else name for i, name in enumerate(names)]


def _variant_name(run: Run, runs: Sequence[Run]) -> str:
    """Return what the user has typed for a variant; the method's title, if that is the method and nothing else is.

    Fields would name what a recipe or a default has set, which the user may never have seen.
    """
    title = method_title(run)
    is_only_one = [method_title(other) for other in runs].count(title) == 1
    return title if is_only_one and run.variant == run.method else run.variant


def _experiment_name(run: Run, runs: Sequence[Run]) -> str:
    """Return the method's title and the fields that differ from the other runs of the method.

    Fields of the method and of the label vectors are compared with the runs of all methods, so that an ablation is
    never named like the method itself; those of the label vectors only for methods that use them. Fields that have
    their default value are left out.
    """
    title, own, defaults = method_title(run), experiment_fields(run.config), _default_fields(run)
    others = [experiment_fields(other.config) for other in runs if method_title(other) == title]
    names = sorted({name for fields in others for name in fields})
    everyone = [experiment_fields(other.config) for other in runs]
    compared = ("labels.", "method.") if _has_label_vectors(run) else ("method.",)
    differing = [
        name
        for name in names
        if any(
            fields.get(name) != own.get(name)
            for fields in (everyone if name in defaults and name.startswith(compared) else others)
        )
        and name != "method.name"
    ]
    shown = [name for name in differing if name in own and (name not in defaults or own[name] != defaults[name])]
    values = ", ".join(f"{name.split('.')[-1]}={_shorten(own[name])}" for name in shown)
    return f"{title} ({values})" if shown else title


def _has_label_vectors(run: Run) -> bool:
    known = Method.registry.get(run.method)
    return known is None or "semantic" in known.heads


def _default_fields(run: Run) -> dict[str, Any]:
    """Return the default of every field with the run's method; nothing if this version does not know the method."""
    known = Method.registry.get(run.method)
    return flat_fields(Config(method=known.Config(name=run.method)).model_dump(mode="json")) if known else {}


def _shorten(value: object) -> str:
    text = "none" if value is None else str(value)
    if len(text) <= LONGEST_VALUE:
        return text
    kept = LONGEST_VALUE - 1
    return f"…{text[-kept:]}" if "/" in text else f"{text[:kept]}…"  # the end of a path says more than its start
