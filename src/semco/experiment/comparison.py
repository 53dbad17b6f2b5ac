"""A fair comparison: the same splits, initial weights and views for every variant; one cell per variant and seed.

A variant is a method, recipes and settings joined by ``+`` (``semco_plus+no-grouping+training.mu=7``). Each cell is a
run, which `semco.experiment.engines` start. When the comparison is started again, finished cells are skipped and
interrupted ones are resumed.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from semco.config import Config, configure, flat_fields, merge
from semco.config.recipes import find_recipe, recipes
from semco.errors import UserError
from semco.experiment.loading import load_request
from semco.experiment.runs import check_same_request
from semco.files import write_text
from semco.methods import Method
from semco.report.tables import mean_or_none
from semco.resolve.rules import note_on_weights
from semco.run.folder import RunFolder
from semco.run.identity import changes_of_comparison
from semco.run.result import RunResult
from semco.training.observer import NullObserver
from semco.training.statistics import CONFIDENT_ACCURACY

# Columns of the CSV besides variant and seed; each is a field of `RunResult`.
COLUMNS = (
    "method",
    "test_accuracy",
    "test_error",
    "validation_accuracy",
    "group_accuracy",
    "num_labels",
    "steps",
    "seconds",
)
# Statistics of the final pseudo-labels by kind of class, as in `RunResult.pseudo_labels`.
KINDS, MEASURES = ("", "/grouped", "/ungrouped"), ("ratio", "accuracy", "group_accuracy")
PSEUDO_LABELS = (*(f"{measure}{kind}" for kind in KINDS for measure in MEASURES), CONFIDENT_ACCURACY)
HEADS = ("one_hot", "semantic")


@dataclass(frozen=True)
class Cell:
    """One run of the comparison."""

    variant: str
    seed: int
    config: Config  # the request
    run: RunFolder

    @property
    def name(self) -> str:
        return f"{self.variant}, seed {self.seed}"

    @property
    def request_file(self) -> Path:
        """The request beside the run folder; an engine writes it when it begins a run."""
        return self.run.path.parent / f"{self.run.path.name}.yaml"


@dataclass(frozen=True)
class Outcome:
    """The result of a cell, or one line that says why there is none."""

    cell: Cell
    result: RunResult | None
    problem: str = ""


def parse_seeds(text: str) -> list[int]:
    """Return ``0,1,2`` as numbers."""
    try:
        seeds = [int(part) for part in text.split(",")]
    except ValueError:
        raise UserError(f"seeds are whole numbers such as 0,1,2, not {text!r}.") from None
    if len(set(seeds)) < len(seeds) or min(seeds) < 0:
        raise UserError(f"each seed must be given once and not be negative, not {text!r}.")
    return seeds


def names_recipe(variant: str) -> bool:
    """Return whether a variant contains a recipe, which may say what to train on."""
    return any(name in recipes() for name in variant.split("+"))


def make_cells(
    variants: Sequence[str],
    seeds: Sequence[int],
    out: Path,
    options: Mapping[str, Any],
    settings: Sequence[str] = (),
    recipe: str | None = None,
) -> list[Cell]:
    """Return one cell per variant and seed; everything else is equal. ``recipe`` is applied before each variant."""
    if RunFolder(out).config_file.exists():
        raise UserError(f"{out} is the folder of a run; choose another folder for the comparison.")
    if len(set(variants)) < len(variants):
        raise UserError(f"each variant must be given once, not {', '.join(variants)}.")
    return [_make_cell(variant, seed, out, options, settings, recipe) for variant in variants for seed in seeds]


def check_requests(cells: Sequence[Cell]) -> None:
    """Refuse run folders that were made for other requests."""
    for cell in cells:
        check_same_request(cell.run, cell.config)


def notes_on(cells: Sequence[Cell]) -> list[str]:
    """Return what a user should know before the runs begin."""
    return list(dict.fromkeys(filter(None, (note_on_weights(cell.config) for cell in cells))))


def differing_fields(cells: Sequence[Cell]) -> dict[str, list[str]]:
    """Return the fields outside the method and the label vectors in which the cells differ, with their values."""
    fields: dict[str, None] = {}
    for cell in cells:
        fields |= dict.fromkeys(changes_of_comparison(cells[0].config, cell.config))
    flat = [flat_fields(cell.config.model_dump(mode="json")) for cell in cells]
    return {name: list(dict.fromkeys(str(values.get(name)) for values in flat)) for name in fields}


def vary_fields(methods: Sequence[str], fields: Sequence[str]) -> list[str]:
    """Return each method with every combination of values: ``labels.eps=0,0.1`` makes two of ``semco``."""
    grid = []
    for text in fields:
        field, equals, values = text.partition("=")
        if not equals or not all(value.strip() for value in values.split(",")):
            raise UserError(f"a field to vary is dotted.key=value,value, not {text!r}.")
        grid.append([f"{field.strip()}={value.strip()}" for value in values.split(",")])
    return ["+".join([method, *combination]) for method in methods for combination in product(*grid)]


def _make_cell(
    variant: str, seed: int, out: Path, options: Mapping[str, Any], settings: Sequence[str], recipe: str | None
) -> Cell:
    parts = variant.split("+")
    names = [*([recipe] if recipe else []), *(part for part in parts if "=" not in part)]
    settings = [*settings, *(part for part in parts if "=" in part)]
    for name in names:
        find_recipe(name)  # raises for an unknown name
    config = configure(",".join(names), options=merge(options, {"training": {"seed": seed}}), settings=settings)
    if config.training.seed != seed:
        raise UserError(f"training.seed={config.training.seed} would be the seed of all runs; give the seeds instead.")
    chosen = [name for name in names if name in Method.registry]
    if chosen and config.method.name != chosen[-1]:
        raise UserError(f"method.name={config.method.name} would be the method of all runs; give the variants instead.")
    return Cell(variant, seed, config, RunFolder(out / f"{variant}-seed{seed}"))


def check_data(cells: Sequence[Cell]) -> None:
    """Load the data of the runs to report a problem once and before anything is written."""
    unfinished = {str(cell.config.data): cell.config for cell in reversed(cells) if not cell.run.is_finished()}
    for config in unfinished.values():
        load_request(config, NullObserver())


def write_csv(outcomes: Sequence[Outcome], file: Path) -> None:
    """Write one row per finished cell."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(["variant", "seed", *COLUMNS, *(f"{head}/{name}" for head in HEADS for name in PSEUDO_LABELS)])
    for outcome in outcomes:
        if (result := outcome.result) is not None:
            of_run = [getattr(result, column) for column in COLUMNS]
            of_heads = [result.pseudo_labels.get(head, {}).get(name) for head in HEADS for name in PSEUDO_LABELS]
            writer.writerow([outcome.cell.variant, outcome.cell.seed, *of_run, *of_heads])
    write_text(file, text.getvalue())


@dataclass(frozen=True)
class HeadRow:
    """Pseudo-label statistics of one head of one variant: means over the seeds, None where no seed has a number."""

    variant: str
    head: str
    means: Mapping[str, float | None]  # by `PSEUDO_LABELS`


def pseudo_label_rows(outcomes: Sequence[Outcome]) -> list[HeadRow]:
    """Return the statistics of the final pseudo-labels of each variant, by head."""
    rows = []
    for variant in dict.fromkeys(outcome.cell.variant for outcome in outcomes):
        finished = [o.result for o in outcomes if o.cell.variant == variant and o.result is not None]
        for head in HEADS:
            found = [result.pseudo_labels[head] for result in finished if head in result.pseudo_labels]
            if found:
                means = {name: mean_or_none(one.get(name) for one in found) for name in PSEUDO_LABELS}
                rows.append(HeadRow(variant, head, means))
    return rows
