"""The figures of the paper about pseudo-labelling: a table in, a figure out.

Fig. 2 and its CIFAR twin: accuracy and ratio of look-alike and distinct classes. Fig. 4: convergence, disagreement,
accuracy of ensemble, one-hot head and baseline. Supplement: error against eps. Also: reliability of the heads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from semco.report.analysis.counts import ClassCounts, Curve, Measure, has_both_heads
from semco.report.analysis.similarity import SimilarClasses
from semco.report.charts import Chart
from semco.report.figures import Line, LineFigure

MEASURE_TITLES: dict[Measure, str] = {
    "ratio": "fraction retained",
    "accuracy": "accuracy of the retained",
    "group_accuracy": "group accuracy of the retained",
    "disagreement": "both heads confident of different classes, of all images",
    "disagreement_of_both": "different classes, of the images that both heads retain",
}
HEAD_TITLES = {"one_hot": "one-hot head", "semantic": "semantic head", "ensemble": "ensemble", "average": "average"}
ALIKE = "Solid lines: the classes whose label vectors are closest to another class; dashed: the most distinct ones."


def chart_of(title: str, figure: LineFigure, caption: str = "") -> Chart:
    """Return a figure for a page; a figure that names its own curves needs no legend."""
    legend = () if figure.has_names else tuple(line for line in figure.lines if not line.is_faint)
    return Chart(title, figure.svg(), legend, caption, figure)


def similar_class_lines(
    counts: ClassCounts, head: str, classes: SimilarClasses, names: Sequence[str], measure: Measure
) -> list[Line]:
    """Return one curve per class: solid for look-alikes, dashed for distinct classes."""
    kinds = [(class_id, False) for class_id in classes.most] + [(class_id, True) for class_id in classes.least]
    lines = [
        Line(names[class_id], *counts.curve(head, [class_id], measure), colour, is_dashed=is_distinct)
        for colour, (class_id, is_distinct) in enumerate(kinds)
    ]
    return [line for line in lines if line.x]


def similar_class_charts(
    method: str, counts: ClassCounts, classes: SimilarClasses, names: Sequence[str]
) -> list[Chart]:
    """Return accuracy and ratio of look-alike and distinct classes for one method (Fig. 2)."""
    charts = []
    measures: tuple[Measure, ...] = ("accuracy", "ratio")
    for measure in measures:
        lines = similar_class_lines(counts, counts.widest_head, classes, names, measure)
        title = f"{method}: {MEASURE_TITLES[measure]}"
        if lines:
            charts.append(chart_of(title, LineFigure(lines, title, percent=True, has_names=True), ALIKE))
    return charts


def disagreement_charts(method: str, counts: ClassCounts, classes: SimilarClasses, names: Sequence[str]) -> list[Chart]:
    """Return how often the heads disagree, for look-alike and distinct classes (Fig. 4 c), with two denominators.

    Of all images it is at most what the head that retains less retains. Of the images that both heads retain it shows
    the paper's "highly disagree" at first and the "sharp reduction".
    """
    if not has_both_heads(counts):
        return []
    measures: tuple[Measure, ...] = ("disagreement_of_both", "disagreement")
    charts = []
    for measure in measures:
        lines = similar_class_lines(counts, "ensemble", classes, names, measure)
        title = f"{method}: {MEASURE_TITLES[measure]}"
        if lines:
            charts.append(chart_of(title, LineFigure(lines, title, percent=True, fit_y=True, has_names=True), ALIKE))
    return charts


def ensemble_chart(counts: Mapping[str, ClassCounts]) -> Chart | None:
    """Return the accuracy of retained pseudo-labels: ensemble and one-hot head of each method (Fig. 4 d)."""
    lines = []
    for number, (method, each) in enumerate(counts.items()):
        everything = range(each.num_classes)
        shown = ("ensemble", "one_hot") if has_both_heads(each) else each.heads
        for head in shown:
            name = f"{method}, {HEAD_TITLES[head]}" if len(shown) > 1 else method
            lines.append(Line(name, *each.curve(head, everything, "accuracy"), number, is_dashed=head == "ensemble"))
    lines = [line for line in lines if line.x]
    title = "Accuracy of retained pseudo-labels"
    return chart_of(title, LineFigure(lines, title, percent=True)) if lines else None


def convergence_chart(curves: Mapping[str, Sequence[Curve]], title: str = "Validation error") -> Chart | None:
    """Return the error of each method over the steps; thin lines are single seeds (Fig. 4 a, b)."""
    from semco.report.charts import lines_with_mean

    lines = [
        line for colour, (name, series) in enumerate(curves.items()) for line in lines_with_mean(name, series, colour)
    ]
    return chart_of(title, LineFigure(lines, title, percent=True, fit_y=True)) if lines else None


def field_chart(field: str, errors: Mapping[str, Mapping[float, Sequence[float]]]) -> Chart | None:
    """Return the test error of each method against the value of a field, such as labels.eps (supplement).

    Points are single runs, the line goes through their means.
    """
    lines, points = [], []
    for colour, (method, by_value) in enumerate(errors.items()):
        values = sorted(by_value)
        means = [float(np.mean(by_value[value])) for value in values]
        lines.append(Line(method, values, means, colour, has_points=True))
        points += [Line(method, [v], [e], colour, is_faint=True) for v in values for e in by_value[v]]
    title = f"Test error against {field}"
    figure = LineFigure([*lines, *points], title, percent=True, x_label=field, fit_y=True)
    return chart_of(title, figure) if lines else None


def reliability_chart(title: str, heads: Mapping[str, Mapping[str, object]]) -> Chart | None:
    """Return the accuracy of each confidence bin by head, beside the diagonal of a calibrated classifier.

    ``heads`` have ``reliability``, rows of images, sum of confidences and correct images, and ``calibration_error``.
    """
    lines = [Line("calibrated", [0.0, 1.0], [0.0, 1.0], 7, is_dashed=True)]
    for colour, (head, values) in enumerate(heads.items()):
        rows = np.asarray(values.get("reliability", []), dtype=float).reshape(-1, 3)
        filled = rows[rows[:, 0] > 0]
        if len(filled):
            name = f"{HEAD_TITLES.get(head, head)}: {100 * float(str(values['calibration_error'])):.1f} %"
            x, y = filled[:, 1] / filled[:, 0], filled[:, 2] / filled[:, 0]
            lines.append(Line(name, x.tolist(), y.tolist(), colour, has_points=True))
    if len(lines) == 1:
        return None
    figure = LineFigure(lines, title, percent=True, x_label="confidence")
    return chart_of(title, figure, "Accuracy of the test images by confidence; the numbers are calibration errors.")
