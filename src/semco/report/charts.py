"""The charts of a report: which numbers of which runs, under which title."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from semco.report.figures import Line, line_chart
from semco.report.runs import Run, Series

HEADS = {"one_hot": "One-hot head", "semantic": "Semantic head"}


@dataclass(frozen=True)
class Chart:
    """A figure with its HTML legend and words."""

    title: str
    svg: str
    legend: tuple[Line, ...] = ()
    caption: str = ""


def learning_charts(groups: Mapping[str, Sequence[Run]], subject: Run) -> list[Chart]:
    """How every run learnt, and the loss terms of the first; several methods as the paper's: error, and its price."""
    charts = [*_validation_charts(groups), _loss_chart(subject)]
    return [chart for chart in charts if chart is not None]


def _validation_charts(groups: Mapping[str, Sequence[Run]]) -> list[Chart | None]:
    if len(groups) == 1:
        return [_validation_chart(groups, "accuracy", "step")]
    return [_validation_chart(groups, "error", over) for over in ("step", "seconds")]


def _validation_chart(groups: Mapping[str, Sequence[Run]], what: str, over: str) -> Chart | None:
    """Accuracy or error on the validation images, over steps or seconds of training."""
    lines, marks = [], []
    for colour, (name, runs) in enumerate(groups.items()):
        curves = [_curve(run, what) for run in runs]
        clocks = [run.series("seconds") for run in runs]
        lines += _repeats(name, curves, colour) if over == "step" else _timed(name, curves, clocks, colour)
        marks += [
            Line(name, [run.steps if over == "step" else run.seconds or 0.0], [_as(what, accuracy)], colour)
            for run in runs
            if (accuracy := run.accuracy()) is not None
        ]
    if not any(line.x for line in lines):
        return None
    axis = {"step": "training step", "seconds": "seconds of training"}[over]
    title = f"Validation {what}" + (" over time" if over == "seconds" else "")
    svg = line_chart(lines, f"{title} ({axis})", percent=True, marks=marks, over=axis, near=len(groups) > 1)
    caption = f"The diamond is the {what} on the test images, measured once, at the end." if marks else ""
    legend = tuple(line for line in lines if not line.faint)
    return Chart(title, svg, legend, caption)


def _as(what: str, accuracy: float) -> float:
    return accuracy if what == "accuracy" else 1.0 - accuracy


def _curve(run: Run, what: str) -> Series:
    steps, accuracies = run.series("validation_accuracy")
    return steps, [_as(what, accuracy) for accuracy in accuracies]


def _repeats(name: str, curves: Sequence[Series], colour: int) -> list[Line]:
    """One curve as it is; several faintly, with their mean on top."""
    curves = [curve for curve in curves if curve[0]]
    if len(curves) <= 1:
        return [Line(name, *curve, colour, points=True) for curve in curves]
    faint = [Line(name, *curve, colour, faint=True) for curve in curves]
    return [*faint, Line(name, *mean_curve(curves), colour, points=True)]


def _timed(name: str, curves: Sequence[Series], clocks: Sequence[Series], colour: int) -> list[Line]:
    """The same curves with each step put where the clock (steps, seconds) stood; the mean's clock is the mean one."""
    tables = [dict(zip(*clock, strict=True)) for clock in clocks]
    lines = [
        replace(line, x=[table[step] for step in line.x])
        for curve, table in zip(curves, tables, strict=True)
        for line in _repeats(name, [curve], colour)
    ]
    if len(lines) <= 1:
        return lines
    steps, values = mean_curve([curve for curve in curves if curve[0]])
    told = [fmean(table[step] for table in tables if step in table) for step in steps]
    return [*(replace(line, faint=True, points=False) for line in lines), Line(name, told, values, colour, points=True)]


def mean_curve(curves: Sequence[Series]) -> Series:
    """The mean at the steps that all curves have."""
    tables = [dict(zip(*curve, strict=True)) for curve in curves]
    shared = sorted(set.intersection(*(set(table) for table in tables)))
    return shared, [fmean(table[step] for table in tables) for step in shared]


def _loss_chart(run: Run) -> Chart | None:
    keys = run.keys("loss/")
    lines = [Line(_loss_name(key), *run.series(key), colour) for colour, key in enumerate(keys)]
    lines = [line for line in lines if line.x]
    if not lines:
        return None
    return Chart("Loss terms, before weighting", line_chart(lines, "Loss terms over training steps"), tuple(lines))


def _loss_name(key: str) -> str:
    return key.removeprefix("loss/").replace("_", " ")


def pseudo_label_charts(run: Run) -> list[Chart]:
    """For each head that made pseudo-labels: the part retained, and how much of it is right."""
    return [chart for head in run.pseudo_label_heads() for chart in _head_charts(run, head) if chart is not None]


def _head_charts(run: Run, head: str) -> list[Chart | None]:
    name = HEADS.get(head, head.replace("_", " ").capitalize())
    ratio = _by_grouping(run, f"pseudo/{head}/ratio")
    accuracy = _by_grouping(run, f"pseudo/{head}/accuracy")
    steps, values = run.series(f"pseudo/{head}/group_accuracy")
    if accuracy and steps and len(accuracy) > 1:
        accuracy.append(Line("right group", steps, values, 0, dashed=True))
    return [
        _chart(f"{name}: part of the pool retained", ratio),
        _chart(f"{name}: accuracy of the retained", accuracy),
    ]


def _by_grouping(run: Run, key: str) -> list[Line]:
    """All classes; and apart, classes that share a group and classes that do not, where there are both."""
    lines = [Line("all classes", *run.series(key), 0)]
    parts = [Line("grouped", *run.series(f"{key}/grouped"), 1), Line("alone", *run.series(f"{key}/ungrouped"), 2)]
    if all(part.x for part in parts):
        lines += parts
    return [line for line in lines if line.x]


def _chart(title: str, lines: Sequence[Line]) -> Chart | None:
    return Chart(title, line_chart(lines, title, percent=True), tuple(lines)) if lines else None
