"""Tables of results, compared with numbers computed by hand."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from rich.table import Table

from semco.evaluation.results import evaluate_probabilities
from semco.report import summary_table, write_report
from semco.report.names import legend, letter_names
from semco.report.runs import read_run
from semco.report.tables import (
    Difference,
    evaluation_tables,
    format_accuracy,
    format_difference,
    format_duration,
    standard_error,
    summary_rows,
)
from semco.run.seal import read_with_digest, write_with_digest


def _set_accuracy(folder: Path, value: float) -> Path:
    file = folder / "result.json"
    write_with_digest(file, read_with_digest(file) | {"test_accuracy": value})
    return folder


def _text(table: Table) -> str:
    console = Console(file=StringIO(), width=120)
    console.print(table)
    assert isinstance(console.file, StringIO)
    return console.file.getvalue()


def test_standard_error_by_hand() -> None:
    # Deviations -1, 0, 1: sample variance 1, so 1 / sqrt(3).
    assert standard_error([1.0, 2.0, 3.0]) == pytest.approx(1 / 3**0.5)
    assert standard_error([0.5]) is None
    assert standard_error([]) is None


def test_seeds_are_one_row_with_a_standard_error(make_run) -> None:
    folders = [_set_accuracy(make_run("semco", s), a) for s, a in ((0, 0.7), (1, 0.8), (2, 0.9))]
    (row,) = summary_rows([read_run(folder) for folder in folders])
    assert (row.name, row.runs, row.finished, row.num_labels) == ("SemCo", 3, 3, 40)
    assert row.accuracy == pytest.approx(0.8)
    assert row.accuracy_text == "80.0 ± 5.8 %"


def test_differences_are_paired_by_seed(make_run) -> None:
    first = [_set_accuracy(make_run("fixmatch", s), a) for s, a in ((0, 0.5), (1, 0.7), (2, 0.9))]
    second = [_set_accuracy(make_run("semco", s), a) for s, a in ((0, 0.6), (1, 0.9), (5, 0.1))]
    rows = summary_rows([read_run(folder) for folder in (*first, *second)])
    assert rows[0].difference is None
    difference = rows[1].difference
    assert difference is not None
    assert difference.mean == pytest.approx(0.15)
    assert difference.standard_error == pytest.approx(0.05)  # deviation of 0.1 and 0.2 is 0.0707, over sqrt(2)
    text = _text(summary_table([*first, *second]))
    assert "paired difference to FixMatch" in text
    assert "+15.0 ± 5.0 (2 of 3 seeds)" in text


def test_one_seed_has_no_standard_error(make_run) -> None:
    folders = [_set_accuracy(make_run("fixmatch"), 0.5), _set_accuracy(make_run("semco"), 0.4)]
    (_, row) = summary_rows([read_run(folder) for folder in folders])
    assert format_difference(row) == "-10.0"


def test_without_a_common_seed_there_is_no_difference(make_run) -> None:
    folders = [make_run("fixmatch", 0), make_run("semco", 1)]
    assert all(row.difference is None for row in summary_rows([read_run(folder) for folder in folders]))
    assert "paired difference" not in _text(summary_table(folders))


def test_without_test_images_the_validation_accuracy_is_shown(make_run) -> None:
    folders = [make_run("fixmatch", 0), make_run("semco", 0)]
    for folder, accuracy in zip(folders, (0.5, 0.75), strict=True):
        result = read_with_digest(folder / "result.json")
        result |= {"test_accuracy": None, "validation_accuracy": accuracy}
        write_with_digest(folder / "result.json", result)
    rows = summary_rows([read_run(folder) for folder in folders])
    assert [row.accuracy for row in rows] == [0.5, 0.75]
    assert rows[1].difference is not None
    assert rows[1].difference.text == "+25.0"
    text = _text(summary_table(folders))
    assert "validation accuracy" in text
    assert "test accuracy" not in text


def test_runs_on_different_data_are_not_paired(make_run) -> None:
    folders = [make_run("fixmatch", 0), make_run("semco", 0), make_run("supervised", 0)]
    for folder, images in zip(folders, ("a", "b", "a"), strict=True):
        write_with_digest(folder / "split.json", {"labels_sha256": "same", "images": images})
    differences = [row.difference for row in summary_rows([read_run(folder) for folder in folders])]
    assert [difference is None for difference in differences] == [True, True, False]


@pytest.mark.parametrize(("mean", "text"), [(-0.0004, "0.0"), (0.0004, "0.0"), (0.0006, "+0.1"), (-0.0006, "-0.1")])
def test_a_difference_of_zero_has_no_sign(mean: float, text: str) -> None:
    assert Difference(mean, None, 1).text == text


def test_unfinished_runs_are_counted_but_not_averaged(make_run) -> None:
    folders = [_set_accuracy(make_run("semco", 0), 0.7), make_run("semco", 1, killed_at=100)]
    (row,) = summary_rows([read_run(folder) for folder in folders])
    assert (row.runs, row.finished, row.accuracy, row.seconds) == (2, 1, 0.7, 150.0)
    assert "1 of 2" in _text(summary_table(folders))


def test_the_terminal_table(make_run) -> None:
    text = _text(summary_table([_set_accuracy(make_run("semco"), 0.8123), make_run("fixmatch", killed_at=20)]))
    assert "SemCo" in text
    assert "81.2 %" in text
    assert "2 min 30 s" in text
    assert "–" in text


@pytest.mark.parametrize(
    ("seconds", "text"), [(None, "–"), (3.4, "3 s"), (59.6, "1 min 00 s"), (151, "2 min 31 s"), (11100, "3 h 05 min")]
)
def test_durations(seconds: float | None, text: str) -> None:
    assert format_duration(seconds) == text


def test_accuracies() -> None:
    assert format_accuracy(None) == "–"
    assert format_accuracy(0.7836) == "78.4 %"


def test_the_tables_of_an_evaluation() -> None:
    names = ("[red]", "coat", "bag")
    evaluation = evaluate_probabilities(np.eye(3), np.array([0, 1, 1]), names, np.array([0, 0, 1]))
    overall, classes, groups = (_text(table) for table in evaluation_tables(evaluation))
    assert "66.7 %" in overall
    assert "[red]" in classes
    assert "50.0 %" in classes
    assert "[red] + coat" in groups


def test_a_comparison_with_one_seed_is_marked(make_run, tmp_path: Path) -> None:
    one = [make_run("fixmatch"), make_run("semco")]
    more = [*one, make_run("fixmatch", 1)]
    assert "warning: One seed only (FixMatch, SemCo)" in _text(summary_table(one))
    assert "warning: One seed only (SemCo)" in _text(summary_table(more))
    assert "One seed" not in _text(summary_table([*more, make_run("semco", 1)]))
    assert "One seed" not in _text(summary_table(one[:1]))
    assert "One seed only (FixMatch, SemCo)" in write_report(one, tmp_path / "report.html").read_text()


def test_long_names_have_a_letter_and_a_legend() -> None:
    names = ["SemCo (eps=0.2, lambda_u=0.5, scale=authors)", "SemCo+", "SemCo+ (grouping=False)"]
    short = letter_names(names, 24)
    assert list(short.values()) == ["a SemCo", "b SemCo+", "c SemCo+"]
    assert legend(short) == [f"a: {names[0]}", f"c: {names[2]}"]
    assert letter_names(names[1:], 24) == {name: name for name in names[1:]}
    assert legend(letter_names(names[1:], 24)) == []
