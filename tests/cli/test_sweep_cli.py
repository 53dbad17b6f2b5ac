"""``semco sweep`` and ``semco ablate`` from the command to the pages, on tiny data."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from tests.cli.in_process import run_here

pytestmark = pytest.mark.usefixtures("plain_figures")


def rows_of(out: Path) -> list[tuple[str, str]]:
    with (out / "results.csv").open() as stream:
        return [(row["variant"], row["seed"]) for row in csv.DictReader(stream)]


def test_a_sweep_ends_in_a_table_and_pages(trained: list[str], tiny_options: list[str], tmp_path: Path) -> None:
    out = tmp_path / "sweep"
    command = ["sweep", *tiny_options, "--over", "labels.eps=0,0.3", "--seeds", "0", "--out", out]
    done = run_here(*command)
    assert done.returncode == 0, done.stderr
    assert trained == ["semco+labels.eps=0-seed0", "semco+labels.eps=0.3-seed0"]
    assert rows_of(out) == [("semco+labels.eps=0", "0"), ("semco+labels.eps=0.3", "0")]
    assert f"open {out / 'report.html'}" in done.stdout
    assert f"open {out / 'analysis.html'}" in done.stdout
    page = (out / "analysis.html").read_text(encoding="utf-8")
    assert "Error against labels.eps" in page


def test_an_ablation_shows_the_method_without_each_part(
    trained: list[str], tiny_options: list[str], tmp_path: Path
) -> None:
    """A run of another comparison in the same folder is in no table and on no page."""
    out = tmp_path / "ablate"
    other = run_here("compare", *tiny_options, "--methods", "fixmatch", "--seeds", "0", "--out", out)
    assert other.returncode == 0, other.stderr
    done = run_here("ablate", *tiny_options, "--seeds", "0", "--out", out)
    assert done.returncode == 0, done.stderr
    parts = ("no-grouping", "no-cotraining", "no-grouping+no-cotraining", "one-hot-targets")
    variants = ["semco", *(f"semco+{part}" for part in parts)]
    assert trained == ["fixmatch-seed0", *(f"{variant}-seed0" for variant in variants)]
    assert rows_of(out) == [(variant, "0") for variant in variants]
    assert "FixMatch" not in (out / "analysis.html").read_text(encoding="utf-8")
