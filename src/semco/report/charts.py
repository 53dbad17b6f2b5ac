"""The charts of a report: which numbers of which runs, under which title."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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
    """Validation accuracy of every run, and the loss terms of the first."""
    charts = [_validation_chart(groups), _loss_chart(subject)]
    return [chart for chart in charts if chart is not None]


def _validation_chart(groups: Mapping[str, Sequence[Run]]) -> Chart | None:
    lines, marks = [], []
    for colour, (name, runs) in enumerate(groups.items()):
        curves = [run.series("validation_accuracy") for run in runs]
        lines += _repeats(name, curves, colour)
        marks += [Line(name, [run.steps], [a], colour) for run in runs if (a := run.accuracy()) is not None]
    if not any(line.steps for line in lines):
        return None
    svg = line_chart(lines, "Validation accuracy over training steps", percent=True, marks=marks)
    caption = "The diamond is the accuracy on the test images, measured once, at the end." if marks else ""
    legend = tuple(line for line in lines if not line.faint)
    return Chart("Validation accuracy", svg, legend, caption)


def _repeats(name: str, curves: Sequence[Series], colour: int) -> list[Line]:
    """One curve as it is; several faintly, with their mean on top."""
    curves = [curve for curve in curves if curve[0]]
    if len(curves) <= 1:
        return [Line(name, *curve, colour, points=True) for curve in curves]
    faint = [Line(name, *curve, colour, faint=True) for curve in curves]
    return [*faint, Line(name, *mean_curve(curves), colour, points=True)]


def mean_curve(curves: Sequence[Series]) -> Series:
    """The mean at the steps that all curves have."""
    tables = [dict(zip(*curve, strict=True)) for curve in curves]
    shared = sorted(set.intersection(*(set(table) for table in tables)))
    return shared, [fmean(table[step] for table in tables) for step in shared]


def _loss_chart(run: Run) -> Chart | None:
    keys = run.keys("loss/")
    lines = [Line(_loss_name(key), *run.series(key), colour) for colour, key in enumerate(keys)]
    lines = [line for line in lines if line.steps]
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
    if all(part.steps for part in parts):
        lines += parts
    return [line for line in lines if line.steps]


def _chart(title: str, lines: Sequence[Line]) -> Chart | None:
    return Chart(title, line_chart(lines, title, percent=True), tuple(lines)) if lines else None
