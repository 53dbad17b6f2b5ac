"""The charts of a report: which metrics of which runs they show, and their titles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, pstdev
from typing import Literal

from semco.report.figures import Line, LineFigure, line_chart
from semco.report.runs import Run, Series

HEAD_TITLES = {"one_hot": "One-hot head", "semantic": "Semantic head"}
AXIS_LABELS = {"step": "training step", "seconds": "training time in seconds"}
SMOOTHED = "Smoothed over a tenth of the log lines; a band is one standard deviation between these."
XAxis = Literal["step", "seconds"]
Measure = Literal["accuracy", "error"]


@dataclass(frozen=True)
class Chart:
    """A figure with its title, legend and caption; ``figure`` draws it into a file."""

    title: str
    svg: str
    legend: tuple[Line, ...] = ()
    caption: str = ""
    figure: LineFigure | None = None


def training_charts(experiments: Mapping[str, Sequence[Run]], main_run: Run) -> list[Chart]:
    """Return charts of the validation results of all runs and of the loss terms of ``main_run``.

    Several experiments are compared by their error over steps and over time, as in the paper.
    """
    if len(experiments) == 1:
        charts = [_validation_chart(experiments, "accuracy", "step")]
    else:
        charts = [_validation_chart(experiments, "error", axis) for axis in ("step", "seconds")]
    return [chart for chart in (*charts, *_loss_charts(main_run)) if chart is not None]


def _validation_chart(experiments: Mapping[str, Sequence[Run]], measure: Measure, axis: XAxis) -> Chart | None:
    """Return curves of accuracy or error on the validation images, with a marker for the test images at the end."""
    lines, markers = [], []
    for colour, (name, runs) in enumerate(experiments.items()):
        lines += (
            _lines_by_step(name, runs, measure, colour)
            if axis == "step"
            else _lines_by_time(name, runs, measure, colour)
        )
        markers += [
            Line(name, [_end(run, axis)], [_convert(accuracy, measure)], colour)
            for run in runs
            if (accuracy := run.accuracy()) is not None
        ]
    if not any(line.x for line in lines):
        return None
    title = f"Validation {measure}" + (" over time" if axis == "seconds" else "")
    label = AXIS_LABELS[axis]
    svg = line_chart(
        lines, f"{title} ({label})", percent=True, markers=markers, x_label=label, fit_y=len(experiments) > 1
    )
    caption = f"The diamond is the {measure} on the test images, measured once at the end." if markers else ""
    return Chart(title, svg, tuple(line for line in lines if not line.is_faint), caption)


def _end(run: Run, axis: XAxis) -> float:
    """Return where the run ends on an axis: at its last step, or at the time of its last log line."""
    if axis == "step":
        return run.steps
    return run.logged_seconds or run.seconds or 0.0


def _convert(accuracy: float, measure: Measure) -> float:
    return accuracy if measure == "accuracy" else 1.0 - accuracy


def _validation_curve(run: Run, measure: Measure) -> Series:
    steps, accuracies = run.series("validation_accuracy")
    return steps, [_convert(accuracy, measure) for accuracy in accuracies]


def _lines_by_step(name: str, runs: Sequence[Run], measure: Measure, colour: int) -> list[Line]:
    return lines_with_mean(name, [_validation_curve(run, measure) for run in runs], colour)


def _lines_by_time(name: str, runs: Sequence[Run], measure: Measure, colour: int) -> list[Line]:
    curves, times = [_validation_curve(run, measure) for run in runs], [run.series("seconds") for run in runs]
    return timed_lines_with_mean(name, curves, times, colour)


def lines_with_mean(name: str, curves: Sequence[Series], colour: int) -> list[Line]:
    """Return the line of one curve; for several curves, faint lines and the line of their mean."""
    curves = [curve for curve in curves if curve[0]]
    if len(curves) <= 1:
        return [Line(name, *curve, colour, has_points=True) for curve in curves]
    faint = [Line(name, *curve, colour, is_faint=True) for curve in curves]
    return [*faint, Line(name, *mean_curve(curves), colour, has_points=True)]


def timed_lines_with_mean(name: str, curves: Sequence[Series], times: Sequence[Series], colour: int) -> list[Line]:
    """Return the lines of `lines_with_mean` over time; ``times`` are the steps and seconds of each run.

    The mean at a step is drawn at the mean time at which the runs reached the step.
    """
    seconds_at = [dict(zip(*series, strict=True)) for series in times]
    lines = [
        Line(name, [seconds[step] for step in steps], values, colour, has_points=True)
        for (steps, values), seconds in zip(curves, seconds_at, strict=True)
        if steps
    ]
    if len(lines) <= 1:
        return lines
    steps, values = mean_curve([curve for curve in curves if curve[0]])
    mean_times = [fmean(seconds[step] for seconds in seconds_at if step in seconds) for step in steps]
    faint = [replace(line, is_faint=True, has_points=False) for line in lines]
    return [*faint, Line(name, mean_times, values, colour, has_points=True)]


def mean_curve(curves: Sequence[Series]) -> Series:
    """Return the mean of curves at the steps that all of them have."""
    tables = [dict(zip(*curve, strict=True)) for curve in curves]
    shared = sorted(set.intersection(*(set(table) for table in tables)))
    return shared, [fmean(table[step] for table in tables) for step in shared]


def _loss_charts(run: Run) -> list[Chart]:
    """Return the chart of the loss terms, and another of those that become negative, whose scale may differ."""
    lines = [
        Line(_loss_title(name), *run.series(name), colour) for colour, name in enumerate(run.metric_names("loss/"))
    ]
    positive = [line for line in lines if line.x and min(line.y) >= 0]
    negative = [line for line in lines if line.x and min(line.y) < 0]
    titles = ("Loss terms, before weighting", "Loss terms below zero, before weighting")
    return [
        Chart(
            title,
            line_chart(shown, f"{title}, over training steps"),
            tuple(shown),
            "" if len(shown) > 1 else shown[0].label,
        )
        for title, shown in zip(titles, (positive, negative), strict=True)
        if shown
    ]


def _loss_title(name: str) -> str:
    name = name.removeprefix("loss/").replace("one_hot", "one-hot").replace("cotraining", "co-training")
    return name.replace("_", " ")


def pseudo_label_charts(run: Run) -> list[Chart]:
    """Return two charts for each head that made pseudo-labels: the fraction retained, and their accuracy."""
    heads = run.pseudo_label_heads()
    charts = [chart for head in heads for chart in _head_charts(run, head, "" if len(heads) == 1 else _prefix(head))]
    return [chart for chart in charts if chart is not None]


def _prefix(head: str) -> str:
    return f"{HEAD_TITLES.get(head, head.replace('_', ' ').capitalize())}: "


def _head_charts(run: Run, head: str, prefix: str) -> list[Chart | None]:
    """Return the charts of a head, which ``prefix`` names."""
    kinds = ("fraction of the pool retained", "accuracy of retained pseudo-labels")
    first, second = (f"{prefix}{kind}" if prefix else kind.capitalize() for kind in kinds)
    ratio = _lines_by_grouping(run, f"pseudo/{head}/ratio")
    accuracy = _lines_by_grouping(run, f"pseudo/{head}/accuracy")
    steps, values = run.series(f"pseudo/{head}/group_accuracy")
    if accuracy and steps and len(accuracy) > 1:
        accuracy.append(_smooth(Line("correct group", steps, values, 0, is_dashed=True)))
    return [
        _percent_chart(first, ratio),
        _percent_chart(second, accuracy),
    ]


def _lines_by_grouping(run: Run, metric: str) -> list[Line]:
    """Return the lines of all classes, of classes that share a group and of other classes, if there are both kinds."""
    lines = [Line("all classes", *run.series(metric), 0)]
    kinds = [
        Line("grouped classes", *run.series(f"{metric}/grouped"), 1),
        Line("other classes", *run.series(f"{metric}/ungrouped"), 2),
    ]
    if all(line.x for line in kinds):
        lines += kinds
    return [_smooth(line) for line in lines if line.x]


def _smooth(line: Line) -> Line:
    """Return a line of means over neighbouring points, a tenth of all around each, in a band of their deviation."""
    reach = len(line.y) // 20
    if not reach:
        return line
    windows = [line.y[max(0, i - reach) : i + reach + 1] for i in range(len(line.y))]
    means = [fmean(window) for window in windows]
    return replace(line, y=means, band=percent_band(means, [pstdev(window) for window in windows]))


def percent_band(values: Sequence[float], deviations: Sequence[float]) -> tuple[list[float], list[float]]:
    """Return the edges of a band around fractions, one deviation to each side, within 0 and 1."""
    pairs = list(zip(values, deviations, strict=True))
    return [max(0.0, value - by) for value, by in pairs], [min(1.0, value + by) for value, by in pairs]


def _percent_chart(title: str, lines: Sequence[Line]) -> Chart | None:
    caption = SMOOTHED if any(line.band for line in lines) else ""
    return Chart(title, line_chart(lines, title, percent=True), tuple(lines), caption) if lines else None
