"""Which curves the charts of a report show."""

from __future__ import annotations

from pathlib import Path

from semco.report.charts import pseudo_label_charts, training_charts
from semco.report.runs import Run


def run_with(lines: list[dict[str, float]]) -> Run:
    metrics = tuple({"step": float(step), **line} for step, line in enumerate(lines))
    return Run(Path("run"), {}, metrics=metrics)


def test_negative_loss_terms_have_a_chart_of_their_own() -> None:
    run = run_with([{"loss/supervised": 2.0, "loss/fairness": 0.0}, {"loss/supervised": 1.0, "loss/fairness": -30.0}])
    first, second = training_charts({"FreeMatch": [run]}, run)
    assert [line.label for line in first.legend] == ["supervised"]
    assert [line.label for line in second.legend] == ["fairness"]
    assert second.title.startswith("Loss terms below zero")


def test_curves_of_pseudo_labels_are_smoothed_in_a_band() -> None:
    """Of 20 points, one to each side counts: 0, 1, 0, 1, ... has the means 1/3 and 2/3 and the deviation sqrt(2)/3."""
    (chart,) = pseudo_label_charts(run_with([{"pseudo/one_hot/ratio": float(step % 2)} for step in range(20)]))
    (line,) = chart.legend
    assert [round(value, 3) for value in line.y[:4]] == [0.5, 0.333, 0.667, 0.333]
    assert line.band is not None
    assert [round(edge[2], 3) for edge in line.band] == [0.195, 1.0]
    assert "Smoothed" in chart.caption
    (short,) = pseudo_label_charts(run_with([{"pseudo/one_hot/ratio": 0.25}]))
    assert (list(short.legend[0].y), short.legend[0].band, short.caption) == ([0.25], None, "")
