"""The tables and figures of the paper as cells, each a recipe with the number that was published.

The tables are data (``tables.yaml``). A cell is one setting with several seeds; its runs are those of
`semco.experiment.comparison`, so finished ones are skipped and a failed one stops nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any, Literal

import torch
import yaml

from semco.config import Config, configure
from semco.errors import UserError, unknown
from semco.experiment.comparison import Cell, Outcome
from semco.experiment.paper.gpu_hours import GpuEstimate, gradient_images
from semco.models import build_network
from semco.run.folder import RunFolder
from semco.training.execution import shortest_time

FOLDER = Path(__file__).parent
Scale = Literal["full", "cpu"]
# Images of the pass that is timed.
TIMED_IMAGES = 8
THIS_MACHINE = "this machine"


@dataclass(frozen=True)
class PaperCell:
    """One setting of the paper: where it stands, what was published there, and how it is trained."""

    table: str
    row: str
    column: str
    published: str  # error in percent, "" for a figure
    recipe: str
    settings: tuple[str, ...] = ()

    @property
    def folder(self) -> str:
        """The name of the folder of its runs; cells with the same setting share it."""
        return "+".join([*self.recipe.split(","), *self.settings]).replace("/", "-")

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"settings": list(self.settings)}


@cache
def paper_tables() -> Mapping[str, Any]:
    """Return the content of tables.yaml."""
    content: dict[str, Any] = yaml.safe_load((FOLDER / "tables.yaml").read_text(encoding="utf-8"))
    return content


def paper_cells(names: Sequence[str], only: Sequence[str] = (), method: str = "semco") -> list[PaperCell]:
    """Return the cells of tables and figures by name; ``only`` keeps columns, ``method`` replaces the paper's own."""
    tables = paper_tables()
    wanted = list(tables) if "all" in names else list(names)
    for name in wanted:
        if name not in tables:
            raise unknown("table or figure", name, [*tables, "groups", "all"])
    cells = [_with_method(cell, method) for name in wanted for cell in _cells(name, tables[name])]
    chosen = [cell for cell in cells if not only or cell.column in only]
    if not chosen:
        columns = ", ".join(dict.fromkeys(cell.column for cell in cells))
        raise UserError(f"no cell is in a column called {', '.join(only)}; the columns are {columns}.")
    return chosen


def unpublished(cells: Sequence[PaperCell]) -> list[PaperCell]:
    """Return the cells without their published numbers, for runs of another setting."""
    return [replace(cell, published="") for cell in cells]


def _with_method(cell: PaperCell, method: str) -> PaperCell:
    if method == "semco" or "semco" not in cell.recipe.split(","):
        return cell
    recipe = ",".join(method if name == "semco" else name for name in cell.recipe.split(","))
    row = method if cell.row == "semco" else cell.row.replace("SemCo", method)  # rows of figures are names of methods
    return PaperCell(cell.table, row, cell.column, "", recipe, cell.settings)


def _cells(name: str, table: Mapping[str, Any]) -> list[PaperCell]:
    if "rows" in table:
        return [
            _table_cell(name, row, column, str(published), entry, table.get("mu", {}))
            for row, entry in table["rows"].items()
            for column, published in entry["published"].items()
        ]
    if "sweeps" in table:
        return [cell for column, entry in table["sweeps"].items() for cell in _sweep_cells(name, column, entry)]
    runs = paper_tables()[table["same_runs_as"]]["runs"] if "same_runs_as" in table else table["runs"]
    return [
        PaperCell(name, recipe.split(",")[-1], column, "", recipe, tuple(entry.get("settings", ())))
        for column, entry in runs.items()
        for recipe in entry["recipes"]
    ]


def _table_cell(
    table: str, row: str, column: str, published: str, entry: Mapping[str, Any], mu: Mapping[str, int]
) -> PaperCell:
    recipe = entry["recipe"].format(column=column, mu=mu.get(column, ""))
    recipe += ",cnn-13" if published.endswith("*") else ""
    return PaperCell(table, row, column, published, recipe, tuple(entry.get("settings", {}).get(column, ())))


def _sweep_cells(table: str, column: str, entry: Mapping[str, Any]) -> list[PaperCell]:
    settings = tuple(entry["settings"])
    return [
        PaperCell(table, f"{field}={value}", column, "", entry["recipe"], (*settings, f"{field}={value}"))
        for field, values in entry["over"].items()
        for value in values
    ]


def cell_config(
    cell: PaperCell, scale: Scale, seed: int, options: Mapping[str, Any], settings: Sequence[str] = ()
) -> Config:
    """Return the configuration of one run; with the scale "cpu" it is small enough for two cores, and not published."""
    recipe = f"{cell.recipe},cpu" if scale == "cpu" else cell.recipe
    own = [each for each in cell.settings if scale == "full" or not each.startswith("training.epochs")]
    values = {**options, "training": {**options.get("training", {}), "seed": seed}}
    return configure(recipe, options=values, settings=[*own, *settings])


def make_runs(
    cells: Sequence[PaperCell],
    scale: Scale,
    seeds: Sequence[int],
    out: Path,
    options: Mapping[str, Any],
    settings: Sequence[str] = (),
) -> list[Cell]:
    """Return the runs of the cells; a setting that several tables have is run once."""
    runs: dict[Path, Cell] = {}
    for cell in cells:
        for seed in seeds:
            path = out / scale / f"{cell.folder}-seed{seed}"
            if path not in runs:
                runs[path] = Cell(cell.folder, seed, cell_config(cell, scale, seed, options, settings), RunFolder(path))
    return list(runs.values())


@dataclass(frozen=True)
class CellResult:
    """A cell with the errors of its finished runs in percent, or the reason why there are none."""

    cell: PaperCell
    errors: tuple[float, ...]
    problem: str = ""

    @property
    def text(self) -> str:
        """Mean and standard deviation over the splits, as the paper gives them."""
        if not self.errors:
            return self.problem or "not run"
        spread = f"±{pstdev(self.errors):.2f}" if len(self.errors) > 1 else ""
        return f"{fmean(self.errors):.2f}{spread}"


def collect(cells: Sequence[PaperCell], outcomes: Sequence[Outcome]) -> list[CellResult]:
    """Return the result of every cell."""
    results = []
    for cell in cells:
        own = [outcome for outcome in outcomes if outcome.cell.variant == cell.folder]
        finished = [o.result.test_error for o in own if o.result is not None and o.result.test_error is not None]
        problem = next((outcome.problem for outcome in own if outcome.problem), "")
        results.append(CellResult(cell, tuple(100 * error for error in finished), problem))
    return results


@dataclass(frozen=True)
class PlannedCell:
    """A cell with the length of one run and the estimated hours of all its splits, by kind of GPU or machine."""

    cell: PaperCell
    steps: int
    hours: Mapping[str, float]

    def to_json(self) -> dict[str, Any]:
        return self.cell.to_json() | {"steps": self.steps, "hours": rounded(self.hours)}


def rounded(hours: Mapping[str, float]) -> dict[str, float]:
    return {where: round(number, 2) for where, number in hours.items()}


def plan_cells(
    cells: Sequence[PaperCell],
    scale: Scale,
    seeds: Sequence[int],
    options: Mapping[str, Any],
    settings: Sequence[str] = (),
) -> list[PlannedCell]:
    """Return how long the cells take: at full scale on GPUs of common kinds, else on this machine."""
    estimate = StepEstimate() if scale == "cpu" else GpuEstimate()
    planned = []
    for cell in cells:
        config = cell_config(cell, scale, seeds[0], options, settings)
        hours = {where: number * len(seeds) for where, number in estimate.hours(config).items()}
        planned.append(PlannedCell(cell, config.training.total_steps, hours))
    return planned


def total_hours(planned: Sequence[PlannedCell]) -> dict[str, float]:
    """Return the hours of all cells together, by kind of GPU or on this machine."""
    return {where: sum(each.hours[where] for each in planned) for where in planned[0].hours}


class StepEstimate:
    """Estimates how long runs take from a timed pass of each network; the data are not needed."""

    def __init__(self) -> None:
        self._seconds: dict[tuple[str, int], float] = {}

    def hours(self, config: Config) -> dict[str, float]:
        """Return the hours of a run on this machine."""
        seconds = self._per_image(config) * gradient_images(config) * config.training.total_steps
        return {THIS_MACHINE: seconds / 3600}

    def _per_image(self, config: Config) -> float:
        """Return the seconds of one image with gradient."""
        key = (config.model.backbone, config.data.image_size or 32)
        if key not in self._seconds:
            network = build_network(config.model, ("semantic",), 100, 128, 3, key[1])
            images = torch.rand(TIMED_IMAGES, 3, key[1], key[1])
            self._seconds[key] = shortest_time(lambda: network(images).logits.sum().backward()) / TIMED_IMAGES
        return self._seconds[key]
