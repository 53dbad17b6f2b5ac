"""The figures of the paper: which series they show."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from semco.report.analysis.counts import ClassCounts
from semco.report.analysis.sections import comparison_table
from semco.report.analysis.similarity import SimilarClasses
from semco.report.figures import Line, LineFigure
from semco.report.pseudo_label_figures import (
    disagreement_charts,
    ensemble_chart,
    field_chart,
    reliability_chart,
    similar_class_charts,
)
from semco.report.sections import Section, file_stem, save_figures, write_sections

NAMES = ("boy", "girl", "rocket", "apple")
CLASSES = SimilarClasses(most=(0, 1), least=(3, 2))


def counts(heads: tuple[str, ...] = ("one_hot", "semantic", "ensemble")) -> ClassCounts:
    """Class k retains k + 1 of 10 images in each of three lines; half are right; of 4 by both heads fewer disagree."""
    values = np.zeros((len(heads), 3, len(NAMES) + 1, 6))
    retained = np.array([1, 2, 3, 4, 0])
    values[..., 0], values[..., 1], values[..., 2] = 10, retained, retained / 2
    values[..., 4] = 4
    values[..., 5] = np.array([3, 2, 1])[None, :, None]
    return ClassCounts(np.array([1, 2, 3]), heads, values)


def test_look_alikes_are_solid_and_distinct_classes_dashed() -> None:
    """Classes 0 and 1 retain 1 and 2 of 10: 15 % together, with a deviation of 5 %; the others 3 and 4."""
    accuracy, ratio = similar_class_charts("SemCo", counts(), CLASSES)
    assert ratio.figure is not None
    assert accuracy.figure is not None
    shown = [(line.label, list(line.y), line.is_dashed) for line in ratio.figure.lines]
    assert shown == [("look-alikes", [0.15] * 3, False), ("distinct", [0.35] * 3, True)]
    bands = [line.band for line in ratio.figure.lines]
    assert np.allclose(bands, [[[0.1] * 3, [0.2] * 3], [[0.3] * 3, [0.4] * 3]])
    assert all(list(line.y) == [0.5] * 3 for line in accuracy.figure.lines)
    assert [line.band for line in accuracy.figure.lines] == [([0.5] * 3, [0.5] * 3)] * 2


def test_the_deviation_of_classes_is_weighted_by_their_counts() -> None:
    """One retained label, wrong, beside 9 right ones: 90 % with a deviation of sqrt(0.9 * 0.1)."""
    values = np.zeros((1, 1, 3, 6))
    values[0, 0, :2, 1], values[0, 0, :2, 2] = [1, 9], [0, 9]
    few = ClassCounts(np.array([1]), ("one_hot",), values)
    assert few.curve("one_hot", [0, 1], "accuracy") == ([1.0], [0.9])
    assert few.spread("one_hot", [0, 1], "accuracy") == [pytest.approx(0.3)]


def test_smoothed_counts_are_sums_of_neighbouring_lines() -> None:
    """Of 40 lines, two to each side are added; the first has only those after it."""
    values = np.zeros((1, 40, 2, 6))
    values[0, :, 0, 0] = np.arange(40)
    smoothed = ClassCounts(np.arange(40), ("one_hot",), values).smoothed().values[0, :, 0, 0]
    assert smoothed[[0, 1, 10, 39]].tolist() == [0 + 1 + 2, 0 + 1 + 2 + 3, 50, 37 + 38 + 39]


def test_disagreement_needs_two_heads() -> None:
    of_both, of_all = disagreement_charts("SemCo", counts(), CLASSES)
    assert of_both.figure is not None
    assert of_all.figure is not None
    assert [list(line.y) for line in of_both.figure.lines] == [[0.75, 0.5, 0.25]] * 2
    assert [list(line.y) for line in of_all.figure.lines] == [[0.3, 0.2, 0.1]] * 2
    assert "of the images that both heads retain" in of_both.title
    assert "of all images" in of_all.title
    assert disagreement_charts("FixMatch", counts(("one_hot",)), CLASSES) == []


def test_figures_of_the_first_epochs_end_there() -> None:
    assert counts().until(2).steps.tolist() == [1, 2]
    assert counts().until(0).steps.tolist() == [1]  # a line may be longer than ten epochs


def test_the_ensemble_is_beside_the_one_hot_head_and_the_baseline() -> None:
    chart = ensemble_chart({"SemCo": counts(), "FixMatch": counts(("one_hot",))})
    assert chart is not None
    names = [line.label for line in chart.legend]
    assert names == ["SemCo, ensemble", "SemCo, one-hot head", "FixMatch"]
    assert ensemble_chart({}) is None


def test_error_against_a_field_is_the_mean_with_its_runs() -> None:
    chart = field_chart("labels.eps", {"SemCo": {0.2: [0.25, 0.5], 0.0: [0.5]}})
    assert chart is not None
    assert chart.figure is not None
    line, *points = chart.figure.lines
    assert (list(line.x), list(line.y)) == ([0.0, 0.2], [0.5, 0.375])
    assert [(point.x[0], point.y[0]) for point in points] == [(0.0, 0.5), (0.2, 0.25), (0.2, 0.5)]


def test_reliability_leaves_out_empty_bins() -> None:
    heads = {"one_hot": {"reliability": [[4, 2.0, 1], [0, 0, 0], [1, 0.9, 1]], "calibration_error": 0.22}}
    chart = reliability_chart("Reliability", heads)
    assert chart is not None
    diagonal, line = chart.legend
    assert (list(line.x), list(line.y)) == ([0.5, 0.9], [0.25, 1.0])
    assert line.label == "calibration error: 22.0 %"  # of a model with one head, which needs no name
    assert reliability_chart("Reliability", {}) is None
    assert diagonal.is_dashed


def test_several_heads_are_named_beside_their_calibration_errors() -> None:
    values = {"reliability": [[4, 2.0, 1]], "calibration_error": 0.25}
    chart = reliability_chart("Reliability", {"one_hot": values, "semantic": values})
    assert chart is not None
    assert [line.label for line in chart.legend[1:]] == ["one-hot head: 25.0 %", "semantic head: 25.0 %"]


def test_the_table_has_first_and_last_third_of_the_disagreement() -> None:
    columns, rows = comparison_table({"SemCo": counts()}, CLASSES)
    assert [row[1] for row in rows] == ["one-hot", "semantic", "ensemble"]
    assert len(columns) == len(rows[0])
    assert rows[2][2:] == ("15.0 %", "35.0 %", "50.0 %", "50.0 %", "50.0 %", "30.0 %", "10.0 %")


def test_pages_and_files(tmp_path: Path) -> None:
    charts = tuple(similar_class_charts("SemCo+ <b>", counts(), CLASSES)[:1])
    sections = [Section("Look-alikes", charts=charts), Section("Empty"), Section("T", "", ("a",), (("<1>",),))]
    page = write_sections(tmp_path / "page.html", "Title", "Verdict", sections).read_text()
    assert "Empty" not in page
    assert "&lt;1&gt;" in page
    assert "SemCo+ <b>:" not in page.replace('aria-label="SemCo+ <b>', "")
    files = save_figures(sections, tmp_path)
    assert [file.name for file in files] == [
        f"semco-plus-b-accuracy-of-the-retained.{e}" for e in ("png", "pdf", "svg")
    ]
    assert files[0].read_bytes().startswith(b"\x89PNG")
    assert is_fit_for_a_paper(files[1].read_bytes())
    assert file_stem("A: b (c)") == "a-b-c"


def is_fit_for_a_paper(pdf: bytes) -> bool:
    """Return whether a PDF is 3.25 inches wide, and all its fonts are TrueType and embedded."""
    return b"/MediaBox [ 0 0 234 " in pdf and b"/FontFile2" in pdf and b"/Type3" not in pdf


def test_the_axes_of_a_figure() -> None:
    """A disagreement of 0 has no negative percentages beside it, and a confidence has ticks between 0 and 1."""
    axes = LineFigure([Line("a", [0, 0.5, 1], [0, 0, 0])], "", percent=True, fit_y=True).draw().axes[0]
    low, high = axes.get_ylim()
    assert -0.01 < low < 0 < high
    assert 0.4 in [round(tick, 9) for tick in axes.get_xticks()]
