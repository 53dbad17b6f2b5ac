"""Results of several runs in one table: a line an experiment, repeats with other seeds as mean and standard error."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev

from rich.table import Table
from rich.text import Text

from semco.evaluation.results import Evaluation
from semco.report.names import experiments
from semco.report.runs import Part, Run, read_run

PARTS: tuple[Part, ...] = ("test", "validation")


@dataclass(frozen=True)
class Difference:
    """Accuracy of an experiment minus that of the first, seed by seed."""

    mean: float
    standard_error: float | None
    seeds: int

    @property
    def text(self) -> str:
        """``+2.6 ± 1.4``, in points."""
        points = round(100 * self.mean, 1)
        sign = "+" if points else ""  # what rounds to nothing has none
        return f"{points + 0.0:{sign}.1f}{_spread(self.standard_error)}"


@dataclass(frozen=True)
class Row:
    """One experiment. Numbers are None until at least one of its runs has them."""

    name: str
    runs: int
    finished: int
    labels: int | None
    accuracy: float | None
    standard_error: float | None
    seconds: float | None
    difference: Difference | None  # None for the first, and where no seed is finished in both, on the same data

    @property
    def accuracy_text(self) -> str:
        return accuracy_text(self.accuracy, self.standard_error)


def summary_rows(runs: Sequence[Run]) -> list[Row]:
    """One row an experiment, in the order in which they were given; the others are measured by the first."""
    groups, part = experiments(runs), judged_on(runs)
    first = next(iter(groups.values()), [])
    return [
        _row(name, group, None if group is first else _difference(group, first, part), part)
        for name, group in groups.items()
    ]


def judged_on(runs: Sequence[Run]) -> Part:
    """The test images; where no run has any, but images that were held out, these."""
    tested, validated = (any(run.accuracy(part) is not None for run in runs) for part in PARTS)
    return "validation" if validated and not tested else "test"


def _row(name: str, runs: Sequence[Run], difference: Difference | None, part: Part) -> Row:
    accuracies = [value for run in runs if (value := run.accuracy(part)) is not None]
    seconds = [run.seconds for run in runs if run.finished and run.seconds is not None]
    return Row(
        name,
        runs=len(runs),
        finished=sum(run.finished for run in runs),
        labels=runs[0].label_count(),
        accuracy=mean_or_none(accuracies),
        standard_error=standard_error(accuracies),
        seconds=mean_or_none(seconds),
        difference=difference,
    )


def _difference(runs: Sequence[Run], first: Sequence[Run], part: Part) -> Difference | None:
    """Over the seeds that both have finished on the same data, so that what they share cancels."""
    ours, theirs = (
        {(run.data, run.seed): value for run in group if (value := run.accuracy(part)) is not None}
        for group in (runs, first)
    )
    values = [ours[key] - theirs[key] for key in sorted(ours.keys() & theirs.keys())]
    return Difference(fmean(values), standard_error(values), len(values)) if values else None


def mean_or_none(values: Iterable[float | None]) -> float | None:
    """Mean of the values that are there; None where none is."""
    known = [value for value in values if value is not None]
    return fmean(known) if known else None


def standard_error(values: Sequence[float]) -> float | None:
    """Standard error of the mean (sample deviation); one value has none."""
    return stdev(values) / math.sqrt(len(values)) if len(values) > 1 else None


def accuracy_text(accuracy: float | None, error: float | None = None) -> str:
    """``78.4 %`` or, with an error, ``78.4 ± 0.6 %``."""
    if accuracy is None:
        return "–"
    return f"{100 * accuracy:.1f}{_spread(error)} %"


def _spread(error: float | None) -> str:
    return "" if error is None else f" ± {100 * error:.1f}"


def duration_text(seconds: float | None) -> str:
    """``42 s``, ``2 min 31 s``, ``3 h 05 min``."""
    if seconds is None:
        return "–"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def labels_text(labels: int | None) -> str:
    return "all" if labels is None else f"{labels:,}"


def summary_table(runs: Sequence[Path], title: str | None = None) -> Table:
    """The rows as a table for the terminal."""
    read = [read_run(path) for path in runs]
    rows = summary_rows(read)
    best = max((row.accuracy for row in rows if row.accuracy is not None), default=None)
    table = Table(title=title)
    table.add_column("method")
    against = difference_title(rows)
    for column in ("labels", "runs", f"{judged_on(read)} accuracy", *([against] if against else []), "time"):
        table.add_column(column, justify="right")
    for row in rows:
        style = "bold green" if best is not None and row.accuracy == best and len(rows) > 1 else ""
        table.add_row(
            Text(row.name),  # as text: a name may hold what rich takes for markup
            labels_text(row.labels),
            runs_text(row),
            Text(row.accuracy_text, style=style),
            *([difference_text(row)] if against else []),
            duration_text(row.seconds),
        )
    return table


def difference_title(rows: Sequence[Row]) -> str:
    """Over the column of differences; nothing where there is none to show."""
    return f"against {rows[0].name}, paired" if any(row.difference for row in rows) else ""


def difference_text(row: Row) -> str:
    """With the number of seeds where fewer than all finished ones could be paired."""
    if row.difference is None:
        return ""
    few = f" ({row.difference.seeds} of {row.finished} seeds)" if row.difference.seeds < row.finished else ""
    return f"{row.difference.text}{few}"


def runs_text(row: Row) -> str:
    return str(row.runs) if row.finished == row.runs else f"{row.finished} of {row.runs}"


def evaluation_tables(evaluation: Evaluation) -> list[Table]:
    """The numbers of one evaluation, then those of each class, then of each group of several classes."""
    overall = Table(show_header=False)
    overall.add_row("head", evaluation.head)
    overall.add_row("test images", f"{evaluation.num_images:,}")
    overall.add_row("accuracy", accuracy_text(evaluation.accuracy))
    if len(evaluation.class_names) > 5:
        overall.add_row("top 5", accuracy_text(evaluation.top5))
    overall.add_row("right group", accuracy_text(evaluation.group_accuracy))
    overall.add_row("calibration error", accuracy_text(evaluation.calibration_error))
    tables = [overall, _accuracies("class", evaluation.per_class())]
    shared = {name: value for name, value in evaluation.per_group().items() if name not in evaluation.class_names}
    return [*tables, _accuracies("label group", shared)] if shared else tables


def _accuracies(kind: str, values: Mapping[str, float | None]) -> Table:
    table = Table()
    table.add_column(kind)
    table.add_column("accuracy", justify="right")
    for name, value in values.items():
        table.add_row(Text(name), accuracy_text(value))
    return table
