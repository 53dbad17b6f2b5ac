"""``semco compare --vary`` from the command to the pages, on tiny data."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest
from rich.console import Console

from semco.cli.compare import pseudo_label_table
from semco.experiment.comparison import PSEUDO_LABELS, HeadRow
from tests.cli.in_process import run_here

pytestmark = pytest.mark.usefixtures("plain_figures")


def rows_of(out: Path) -> list[tuple[str, str]]:
    with (out / "results.csv").open() as stream:
        return [(row["variant"], row["seed"]) for row in csv.DictReader(stream)]


def test_a_field_that_varies_ends_in_a_table_and_pages(
    trained: list[str], tiny_options: list[str], tmp_path: Path
) -> None:
    """A run of another comparison in the same folder is in no table and on no page."""
    out = tmp_path / "varied"
    other = run_here("compare", *tiny_options, "--methods", "fixmatch", "--seeds", "0", "--out", out)
    assert other.returncode == 0, other.stderr
    varied = ["--methods", "semco", "--vary", "labels.eps=0,0.3", "--seeds", "0", "--out", out]
    done = run_here("compare", *tiny_options, *varied)
    assert done.returncode == 0, done.stderr
    assert trained == ["fixmatch-seed0", "semco+labels.eps=0-seed0", "semco+labels.eps=0.3-seed0"]
    assert rows_of(out) == [("semco+labels.eps=0", "0"), ("semco+labels.eps=0.3", "0")]
    assert f"open {out / 'report.html'}" in done.stdout
    assert f"open {out / 'analysis.html'}" in done.stdout
    page = (out / "analysis.html").read_text(encoding="utf-8")
    assert "Error against labels.eps" in page
    assert "FixMatch" not in page


def test_each_number_about_pseudo_labels_has_a_cell_of_its_own() -> None:
    means: dict[str, float | None] = dict.fromkeys(PSEUDO_LABELS) | {
        "ratio": 0.01,
        "accuracy": 0.93,
        "group_accuracy": 0.95,
    }
    grouped = {"ratio/grouped": 0.5, "surest_accuracy/grouped": 0.35}
    rows = [HeadRow("fixmatch", "one_hot", means), HeadRow("semco", "semantic", means | grouped)]
    text = io.StringIO()
    Console(file=text, width=120).print(pseudo_label_table(rows))
    printed = [line.split() for line in text.getvalue().splitlines()[2:5]]
    assert printed == [
        ["fixmatch", "one-hot", "all", "1%", "93%", "95%", "–"],  # no row of grouped classes: there are none
        ["semco", "semantic", "all", "1%", "93%", "95%", "–"],
        ["grouped", "50%", "–", "–", "35%"],
    ]
