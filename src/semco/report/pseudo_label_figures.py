"""The figures of the paper about pseudo-labelling: a table in, a figure out.

Fig. 2 and its CIFAR twin: accuracy and ratio of look-alike and distinct classes. Fig. 4: convergence, disagreement,
accuracy of ensemble, one-hot head and baseline. Supplement: error against eps. Also: reliability of the heads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from semco.report.analysis.counts import ClassCounts, Curve, Measure, has_both_heads
from semco.report.analysis.similarity import SimilarClasses
from semco.report.charts import Chart, lines_with_mean, percent_band
from semco.report.figures import Line, LineFigure

MEASURE_TITLES: dict[Measure, str] = {
    "ratio": "fraction retained",
    "accuracy": "accuracy of the retained",
    "group_accuracy": "group accuracy of the retained",
    "disagreement": "both heads confident of different classes, of all images",
    "disagreement_of_both": "different classes, of the images that both heads retain",
}
HEAD_TITLES = {"one_hot": "one-hot head", "semantic": "semantic head", "ensemble": "ensemble", "average": "average"}


def chart_of(title: str, figure: LineFigure, caption: str = "") -> Chart:
    """Return a figure for a page."""
    return Chart(title, figure.svg(), tuple(line for line in figure.lines if not line.is_faint), caption, figure)


def similar_class_lines(counts: ClassCounts, head: str, classes: SimilarClasses, measure: Measure) -> list[Line]:
    """Return smoothed curves of the look-alikes together and of the distinct classes together.

    The band around a curve is one standard deviation of its classes.
    """
    counts, lines = counts.smoothed(), []
    for colour, (kind, class_ids) in enumerate({"look-alikes": classes.most, "distinct": classes.least}.items()):
        steps, values = counts.curve(head, class_ids, measure)
        band = percent_band(values, counts.spread(head, class_ids, measure))
        lines.append(Line(kind, steps, values, colour, is_dashed=kind == "distinct", band=band))
    return [line for line in lines if line.x]


def _class_charts(
    method: str, counts: ClassCounts, head: str, classes: SimilarClasses, measures: Sequence[Measure], fit_y: bool
) -> list[Chart]:
    titles = {measure: f"{method}: {MEASURE_TITLES[measure]}" for measure in measures}
    lines = {measure: similar_class_lines(counts, head, classes, measure) for measure in measures}
    return [
        chart_of(titles[measure], LineFigure(lines[measure], titles[measure], percent=True, fit_y=fit_y))
        for measure in measures
        if lines[measure]
    ]


def similar_class_charts(method: str, counts: ClassCounts, classes: SimilarClasses) -> list[Chart]:
    """Return accuracy and ratio of look-alike and distinct classes for one method (Fig. 2)."""
    return _class_charts(method, counts, counts.widest_head, classes, ("accuracy", "ratio"), fit_y=False)


def disagreement_charts(method: str, counts: ClassCounts, classes: SimilarClasses) -> list[Chart]:
    """Return how often the heads disagree, for look-alike and distinct classes (Fig. 4 c), with two denominators.

    Of all images it is at most what the head that retains less retains. Of the images that both heads retain it shows
    the paper's "highly disagree" at first and the "sharp reduction".
    """
    if not has_both_heads(counts):
        return []
    return _class_charts(method, counts, "ensemble", classes, ("disagreement_of_both", "disagreement"), fit_y=True)


def ensemble_chart(counts: Mapping[str, ClassCounts]) -> Chart | None:
    """Return the accuracy of retained pseudo-labels: ensemble and one-hot head of each method (Fig. 4 d)."""
    lines = []
    for number, (method, raw) in enumerate(counts.items()):
        each = raw.smoothed()
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
            named = HEAD_TITLES.get(head, head) if len(heads) > 1 else "calibration error"
            name = f"{named}: {100 * float(str(values['calibration_error'])):.1f} %"
            x, y = filled[:, 1] / filled[:, 0], filled[:, 2] / filled[:, 0]
            lines.append(Line(name, x.tolist(), y.tolist(), colour, has_points=True))
    if len(lines) == 1:
        return None
    figure = LineFigure(lines, f"{title}: accuracy", percent=True, x_label="confidence")
    numbers = "; the numbers are calibration errors" if len(heads) > 1 else ""
    return chart_of(title, figure, f"Accuracy of the test images by confidence{numbers}.")
