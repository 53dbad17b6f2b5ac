"""Tables of results: one row per experiment, with mean and standard error over its seeds."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from rich.table import Table
from rich.text import Text

from semco.evaluation.results import Evaluation
from semco.report.names import group_by_experiment, legend, letter_names
from semco.report.runs import Run, read_runs
from semco.run.accuracy import Kind

MISSING = "–"
LONGEST_NAME = 24  # characters of a method in the table for the terminal


@dataclass(frozen=True)
class Difference:
    """Mean difference in accuracy between an experiment and the first one, over runs with the same seed."""

    mean: float
    standard_error: float | None
    seeds: int

    @property
    def text(self) -> str:
        """``+2.6 ± 1.4``, in percentage points."""
        points = round(100 * self.mean, 1)
        sign = "+" if points else ""  # no sign for 0.0
        return f"{points + 0.0:{sign}.1f}{_format_error(self.standard_error)}"


@dataclass(frozen=True)
class Row:
    """Results of one experiment. Numbers are None if none of its runs has them."""

    name: str
    runs: int
    finished: int
    num_labels: int | None
    accuracy: float | None
    standard_error: float | None
    seconds: float | None
    difference: Difference | None  # None for the first experiment, and if no pair of runs has the same seed and data

    @property
    def accuracy_text(self) -> str:
        return format_accuracy(self.accuracy, self.standard_error)


def summary_rows(runs: Sequence[Run]) -> list[Row]:
    """Return one row per experiment, in the order of the runs, with the difference to the first experiment."""
    experiments, kind = group_by_experiment(runs), evaluated_kind(runs)
    first = next(iter(experiments.values()), [])
    return [
        _row(name, group, None if group is first else _difference(group, first, kind), kind)
        for name, group in experiments.items()
    ]


def evaluated_kind(runs: Sequence[Run]) -> Kind:
    """Return on what the accuracy of runs is compared: test images if any run has them, else validation images, ..."""
    kinds: tuple[Kind, ...] = ("test", "validation", "cross_validation")
    return next((kind for kind in kinds if any(run.accuracy(kind) is not None for run in runs)), "test")


def accuracy_title(kind: Kind) -> str:
    """Return the heading of accuracies of a kind: ``test accuracy``."""
    return f"{'cross-validated' if kind == 'cross_validation' else kind} accuracy"


def _row(name: str, runs: Sequence[Run], difference: Difference | None, kind: Kind) -> Row:
    accuracies = [value for run in runs if (value := run.accuracy(kind)) is not None]
    return Row(
        name,
        runs=len(runs),
        finished=sum(run.is_finished for run in runs),
        num_labels=runs[0].num_labels,
        accuracy=mean_or_none(accuracies),
        standard_error=standard_error(accuracies),
        seconds=mean_or_none(run.seconds for run in runs if run.is_finished),
        difference=difference,
    )


def _difference(runs: Sequence[Run], first: Sequence[Run], kind: Kind) -> Difference | None:
    """Return the paired difference over the seeds that both experiments have finished on the same data."""
    own, baseline = (
        {(run.data_id, run.seed): value for run in group if (value := run.accuracy(kind)) is not None}
        for group in (runs, first)
    )
    values = [own[key] - baseline[key] for key in sorted(own.keys() & baseline.keys())]
    return Difference(fmean(values), standard_error(values), len(values)) if values else None


def mean_or_none(values: Iterable[float | None]) -> float | None:
    """Return the mean of the values that are not None; None if there are none."""
    known = [value for value in values if value is not None]
    return fmean(known) if known else None


def standard_error(values: Sequence[float]) -> float | None:
    """Return the standard error of the mean (sample deviation); None for fewer than two values."""
    return stdev(values) / math.sqrt(len(values)) if len(values) > 1 else None


def format_accuracy(accuracy: float | None, error: float | None = None) -> str:
    """Return ``78.4 %`` or, with a standard error, ``78.4 ± 0.6 %``."""
    return MISSING if accuracy is None else f"{100 * accuracy:.1f}{_format_error(error)} %"


def _format_error(error: float | None) -> str:
    return "" if error is None else f" ± {100 * error:.1f}"


def format_duration(seconds: float | None) -> str:
    """Return ``42 s``, ``2 min 31 s`` or ``3 h 05 min``."""
    if seconds is None:
        return MISSING
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def format_num_labels(num_labels: int | None) -> str:
    return "all" if num_labels is None else f"{num_labels:,}"


def format_runs(row: Row) -> str:
    """Return the number of runs, with the number of finished ones if they differ: ``3`` or ``2 of 3``."""
    return str(row.runs) if row.finished == row.runs else f"{row.finished} of {row.runs}"


def difference_title(rows: Sequence[Row]) -> str:
    """Return the heading of the column of differences; empty if there is no difference to show."""
    return f"paired difference to {rows[0].name}" if any(row.difference for row in rows) else ""


def format_difference(row: Row) -> str:
    """Return the difference, with the number of seeds if some finished runs have no partner."""
    if row.difference is None:
        return ""
    seeds, finished = row.difference.seeds, row.finished
    return row.difference.text + (f" ({seeds} of {finished} seeds)" if seeds < finished else "")


def seed_warning(rows: Sequence[Row]) -> str:
    """Return a warning if experiments are compared of which one has finished only one run; else an empty text."""
    single = [row.name for row in rows if row.finished == 1]
    if len(rows) < 2 or not single:
        return ""
    return f"One seed only ({', '.join(single)}): a difference may be chance. Three or more tell."


def summary_table(
    paths: Sequence[Path],
    title: str | None = None,
    caption: str | None = None,
    variants: Mapping[Path, str] | None = None,
) -> Table:
    """Return the results of run folders as a table for the terminal; the highest accuracy is green."""
    runs = read_runs(paths, variants)
    rows = summary_rows(runs)
    best = max((row.accuracy for row in rows if row.accuracy is not None), default=None)
    names = letter_names([row.name for row in rows], LONGEST_NAME)
    notes = [Text(line) for line in (*legend(names), *([caption] if caption else []))]
    if warning := seed_warning(rows):
        notes.append(Text(f"warning: {warning}", style="bold yellow"))
    table = Table(title=title, caption=Text("\n").join(notes) if notes else None, caption_justify="left")
    table.add_column("method")
    difference = difference_title(rows).replace(*next(iter(names.items()), ("", "")))
    for column in (
        "labels",
        "runs",
        accuracy_title(evaluated_kind(runs)),
        *([difference] if difference else []),
        "time",
    ):
        table.add_column(column, justify="right")
    for row in rows:
        is_best = best is not None and row.accuracy == best and len(rows) > 1
        table.add_row(
            Text(names[row.name]),  # a plain string would be read as rich markup
            format_num_labels(row.num_labels),
            format_runs(row),
            Text(row.accuracy_text, style="bold green" if is_best else ""),
            *([format_difference(row)] if difference else []),
            format_duration(row.seconds),
        )
    return table


def evaluation_tables(evaluation: Evaluation) -> list[Table]:
    """Return tables of an evaluation: overall, per class and, if classes share groups, per group."""
    overall = Table(show_header=False)
    overall.add_row("head", evaluation.head)
    overall.add_row("test images", f"{evaluation.num_images:,}")
    overall.add_row("accuracy", format_accuracy(evaluation.accuracy))
    if len(evaluation.class_names) > 5:
        overall.add_row("top-5 accuracy", format_accuracy(evaluation.top5))
    overall.add_row("group accuracy", format_accuracy(evaluation.group_accuracy))
    overall.add_row("calibration error", format_accuracy(evaluation.calibration_error))
    tables = [overall, _accuracy_table("class", evaluation.per_class())]
    shared = {name: value for name, value in evaluation.per_group().items() if name not in evaluation.class_names}
    return [*tables, _accuracy_table("label group", shared)] if shared else tables


def heads_table(evaluations: Mapping[Any, Evaluation]) -> Table:
    """Return the metrics of several heads side by side."""
    table = Table(title="heads side by side")
    table.add_column("head")
    for name in ("accuracy", "top-5 accuracy", "group accuracy", "calibration error"):
        table.add_column(name, justify="right")
    for head, evaluation in evaluations.items():
        table.add_row(head, *map(format_accuracy, evaluation.numbers().values()))
    return table


def _accuracy_table(kind: str, accuracies: Mapping[str, float | None]) -> Table:
    table = Table()
    table.add_column(kind)
    table.add_column("accuracy", justify="right")
    for name, accuracy in accuracies.items():
        table.add_row(Text(name), format_accuracy(accuracy))
    return table
