"""A fair comparison: the same splits, initial weights and views for every variant; one cell per variant and seed.

A variant is a method, recipes and settings joined by ``+`` (``semco_plus+no-grouping+training.mu=7``). Each cell is a
run in its own process, so that a failure stops nothing else. When the comparison is started again, finished cells are
skipped and interrupted ones are resumed.
"""

from __future__ import annotations

import csv
import io
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

from semco.config import Config, configure, flat_fields, merge
from semco.config.recipes import find_recipe, recipes
from semco.distributed.parent import parent_environment
from semco.errors import UserError
from semco.experiment.loading import load_request
from semco.experiment.runs import check_same_request
from semco.files import write_text
from semco.methods import Method
from semco.report.tables import mean_or_none
from semco.run.folder import RunFolder
from semco.run.identity import changes_of_comparison
from semco.run.result import RunResult
from semco.training.observer import NullObserver
from semco.training.signals import Stopped, StopRequest, catch_signals
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
    """Return every variant with every seed; everything else is equal. ``recipe`` is below all variants."""
    if RunFolder(out).config_file.exists():
        raise UserError(f"{out} is the folder of a run; choose another folder for the comparison.")
    if len(set(variants)) < len(variants):
        raise UserError(f"each variant must be given once, not {', '.join(variants)}.")
    return [_make_cell(variant, seed, out, options, settings, recipe) for variant in variants for seed in seeds]


def check_requests(cells: Sequence[Cell]) -> None:
    """Refuse run folders that were made for other requests."""
    for cell in cells:
        check_same_request(cell.run, cell.config)


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


def run_cells(
    cells: Sequence[Cell],
    jobs: int,
    on_end: Callable[[Outcome], None],
    on_begin: Callable[[int, Cell], None] = lambda _number, _cell: None,
) -> list[Outcome]:
    """Run the cells that are not finished, ``jobs`` at a time, and call ``on_begin`` and ``on_end`` for each.

    A signal stops the runs, which save their state, and no other run is started: `Stopped`.
    """
    with catch_signals() as stop, ThreadPoolExecutor(max_workers=jobs) as workers:

        def work(number: int, cell: Cell) -> Outcome:
            outcome = _run_cell(cell, jobs, stop, partial(on_begin, number, cell))
            if stop.number is None:
                on_end(outcome)
            return outcome

        outcomes = list(workers.map(work, range(1, len(cells) + 1), cells))
    if stop.number is not None:
        raise Stopped(stop.number, "; what was started is saved")
    return outcomes


def _run_cell(cell: Cell, jobs: int, stop: StopRequest, on_begin: Callable[[], None]) -> Outcome:
    if not cell.run.is_whole():  # it may have been killed between its result and its page
        if stop.number is not None:
            return Outcome(cell, None, "not started")
        on_begin()
        threads = max(1, (os.cpu_count() or 1) // jobs)
        environment = {"OMP_NUM_THREADS": str(threads), **os.environ, **parent_environment()}
        code, errors = _run_command(_command(cell), environment, stop)
        if code != 0:
            lines = [line for line in errors.splitlines() if line.strip()]
            return Outcome(cell, None, lines[-1] if lines else f"exit code {code}")
    return Outcome(cell, cell.run.result())


def _run_command(command: Sequence[str], environment: Mapping[str, str], stop: StopRequest) -> tuple[int, str]:
    """Return exit code and error output of a command, which is terminated at a request to stop."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=environment)
    is_terminated = False
    while True:
        try:
            _, errors = process.communicate(timeout=0.2)
            return process.returncode, errors
        except subprocess.TimeoutExpired:
            if stop.number is not None and not is_terminated:
                process.terminate()
                is_terminated = True


def _command(cell: Cell) -> list[str]:
    semco = [sys.executable, "-m", "semco"]
    if cell.run.config_file.exists():
        return [*semco, "resume", str(cell.run.path)]
    file = cell.run.path.parent / f"{cell.run.path.name}.yaml"
    write_text(file, cell.config.to_yaml())
    return [*semco, "train", "--config", str(file), "--out", str(cell.run.path)]


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
