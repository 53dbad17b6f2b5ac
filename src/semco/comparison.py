"""A fair comparison: the same splits, initial weights and views for every method, one cell a method and seed.

Each cell is a run in a process of its own, so that one that fails stops nothing else; a finished cell is skipped when
the comparison is started again, and a broken one goes on where it was.
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
from pathlib import Path
from typing import Any

from semco.config import Config, changed_fields, merge
from semco.data.sources import load
from semco.data.split import make_split
from semco.errors import UserError, nearest
from semco.experiment import refuse_other_settings
from semco.files import write_text
from semco.methods import Method
from semco.recipes import RECIPES, configure
from semco.report.tables import mean_known
from semco.training.run_folder import RunFolder
from semco.training.signals import Stopped, StopRequest, stop_request
from semco.training.statistics import SUREST_GROUPED

# Columns of the CSV, beside the cell's variant and seed; each is a field of result.json.
COLUMNS = (
    "method",
    "test_accuracy",
    "test_error",
    "validation_accuracy",
    "group_accuracy",
    "labels",
    "steps",
    "seconds",
)

# What the final model's heads say of the unlabelled images, by kind of class; a field of result.json's pseudo_labels.
KINDS, MEASURES = ("", "/grouped", "/ungrouped"), ("ratio", "accuracy", "group_accuracy")
PSEUDO_LABELS = (*(f"{measure}{kind}" for kind in KINDS for measure in MEASURES), SUREST_GROUPED)
HEADS = ("one_hot", "semantic")
# Sections in which all runs of a comparison are alike.
EQUAL = ("data", "model", "augment", "optim", "training")


@dataclass(frozen=True)
class Cell:
    """One run of the comparison."""

    variant: str
    seed: int
    config: Config
    run: RunFolder

    @property
    def name(self) -> str:
        return f"{self.variant}, seed {self.seed}"


@dataclass(frozen=True)
class Outcome:
    """How a cell ended: its result, or in one line why there is none."""

    cell: Cell
    result: Mapping[str, Any] | None
    problem: str = ""


def seed_list(text: str) -> list[int]:
    """``0,1,2`` as numbers."""
    try:
        seeds = [int(part) for part in text.split(",")]
    except ValueError:
        raise UserError(f"seeds are whole numbers such as 0,1,2, not {text!r}.") from None
    if len(set(seeds)) < len(seeds) or min(seeds) < 0:
        raise UserError(f"each seed must be there once and not below 0, not {text!r}.")
    return seeds


def make_cells(
    variants: Sequence[str], seeds: Sequence[int], out: Path, options: Mapping[str, Any], settings: Sequence[str] = ()
) -> list[Cell]:
    """Every variant with every seed; a variant is a method or a recipe, and everything else is equal."""
    if RunFolder(out).config_file.exists():
        raise UserError(f"{out} is the folder of a run; choose another one with --out.")
    for name in variants:
        if name not in Method.registry and name not in RECIPES:
            hint = nearest(name, [*Method.registry, *RECIPES]) or "."
            known = ", ".join(sorted(Method.registry))
            raise UserError(
                f"{name!r} is neither a method nor a recipe{hint} Methods: {known}; 'semco recipes' lists the others."
            )
    if len(set(variants)) < len(variants):
        raise UserError(f"each method must be there once, not {', '.join(variants)}.")
    cells = []
    for name in variants:
        for seed in seeds:
            own = {"training": {"seed": seed}} | ({"method": {"name": name}} if name in Method.registry else {})
            recipe = None if name in Method.registry else name
            config = configure(recipe, options=merge(options, own), settings=settings)
            cells.append(Cell(name, seed, config, RunFolder(out / f"{name}-seed{seed}")))
    for cell in cells:
        _refuse_unequal(cells[0], cell)
        refuse_other_settings(cell.run, cell.config)
    return cells


def check_data(cells: Sequence[Cell]) -> None:
    """What is wrong with the data, which all runs share, is said once and before anything is written."""
    unfinished = [cell for cell in cells if not cell.run.finished()]
    if unfinished:
        config = unfinished[0].config
        dataset = load(config.data)
        make_split(dataset.train_labels, config.data, config.training.seed, dataset.class_names)


def _refuse_unequal(first: Cell, cell: Cell) -> None:
    """A cell is the method and seed that it is called, and like the first in all but these and the label prior."""
    if cell.config.training.seed != cell.seed:
        raise UserError(
            f"training.seed={cell.config.training.seed} would be the seed of all runs; use --seeds instead."
        )
    if cell.variant in Method.registry and cell.config.method.name != cell.variant:
        raise UserError(
            f"method.name={cell.config.method.name} would be the method of all runs; use --methods instead."
        )
    one, other = (
        {name: getattr(each.config, name).model_dump(mode="json") for name in EQUAL} for each in (first, cell)
    )
    unequal = {key: pair for key, pair in changed_fields(one, other).items() if key != "training.seed"}
    if unequal:
        said = ", ".join(f"{key} {was} and {now}" for key, (was, now) in unequal.items())
        raise UserError(
            f"{first.variant} and {cell.variant} differ in more than the method ({said}); "
            "give these by options or --set, for all alike."
        )


def run_cells(
    cells: Sequence[Cell],
    jobs: int,
    done: Callable[[Outcome], None],
    begun: Callable[[int, Cell], None] = lambda _number, _cell: None,
) -> list[Outcome]:
    """Run what is not finished, ``jobs`` at a time; ``done`` is told of each cell as it ends, ``begun`` as it begins.

    A signal ends the runs, which save what they have, and begins no other: `Stopped`.
    """
    with stop_request() as stop, ThreadPoolExecutor(max_workers=jobs) as workers:

        def work(number: int, cell: Cell) -> Outcome:
            outcome = _run_cell(cell, jobs, stop, partial(begun, number, cell))
            if stop.number is None:
                done(outcome)
            return outcome

        outcomes = list(workers.map(work, range(1, len(cells) + 1), cells))
    if stop.number is not None:
        raise Stopped(stop.number, "; what was begun is saved")
    return outcomes


def _run_cell(cell: Cell, jobs: int, stop: StopRequest, begun: Callable[[], None]) -> Outcome:
    if not cell.run.finished():
        if stop.number is not None:
            return Outcome(cell, None, "not begun")
        begun()
        threads = max(1, (os.cpu_count() or 1) // jobs)
        code, said = _carry_out(_command(cell), {"OMP_NUM_THREADS": str(threads), **os.environ}, stop)
        if code != 0:
            lines = [line for line in said.splitlines() if line.strip()]
            return Outcome(cell, None, lines[-1] if lines else f"exit code {code}")
    return Outcome(cell, cell.run.result())


def _carry_out(command: Sequence[str], environment: Mapping[str, str], stop: StopRequest) -> tuple[int, str]:
    """Exit code and errors of a command, which is told of a request to stop."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=environment)
    told = False
    while True:
        try:
            _, said = process.communicate(timeout=0.2)
            return process.returncode, said
        except subprocess.TimeoutExpired:
            if stop.number is not None and not told:
                process.terminate()
                told = True


def _command(cell: Cell) -> list[str]:
    semco = [sys.executable, "-m", "semco"]
    if cell.run.config_file.exists():
        return [*semco, "resume", str(cell.run.path)]
    file = cell.run.path.with_suffix(".yaml")
    write_text(file, cell.config.to_yaml())
    return [*semco, "train", "--config", str(file), "--out", str(cell.run.path)]


def write_csv(outcomes: Sequence[Outcome], file: Path) -> None:
    """One row a finished cell."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(["variant", "seed", *COLUMNS, *(f"{head}/{name}" for head in HEADS for name in PSEUDO_LABELS)])
    for outcome in outcomes:
        if outcome.result is not None:
            of_run = [outcome.result.get(column) for column in COLUMNS]
            of_heads = [_of_head(outcome.result, head).get(name) for head in HEADS for name in PSEUDO_LABELS]
            writer.writerow([outcome.cell.variant, outcome.cell.seed, *of_run, *of_heads])
    write_text(file, text.getvalue())


def _of_head(result: Mapping[str, Any], head: str) -> Mapping[str, float | None]:
    found: Mapping[str, float | None] = result.get("pseudo_labels", {}).get(head, {})
    return found


@dataclass(frozen=True)
class HeadRow:
    """One head of one variant: means over the seeds, None where no seed has a number."""

    variant: str
    head: str
    means: Mapping[str, float | None]  # of `PSEUDO_LABELS`


def pseudo_label_rows(outcomes: Sequence[Outcome]) -> list[HeadRow]:
    """What the final models of each variant say of the unlabelled images, by head."""
    rows = []
    for variant in dict.fromkeys(outcome.cell.variant for outcome in outcomes):
        finished = [o.result for o in outcomes if o.cell.variant == variant and o.result is not None]
        for head in HEADS:
            told = [found for result in finished if (found := _of_head(result, head))]
            if told:
                means = {name: mean_known(one.get(name) for one in told) for name in PSEUDO_LABELS}
                rows.append(HeadRow(variant, head, means))
    return rows
