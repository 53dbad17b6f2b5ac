"""``semco sweep`` and ``semco ablate`` from the command to the pages, on tiny data."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from semco.config import Config
from semco.experiment import train
from tests.cli.in_process import run_here


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the runs that were trained, in this process and without a page of their own."""
    names: list[str] = []

    def run_command(command: Sequence[str], *_: object) -> tuple[int, str]:
        file, out = (Path(command[command.index(option) + 1]) for option in ("--config", "--out"))
        train(Config.parse(yaml.safe_load(file.read_text(encoding="utf-8"))), out)
        names.append(out.name)
        return 0, ""

    monkeypatch.setattr("semco.experiment.comparison._run_command", run_command)
    monkeypatch.setattr("semco.experiment.session.write_report", lambda *_: None)
    return names


@pytest.fixture
def tiny_options(tiny_values: dict[str, Any]) -> list[str]:
    """The tiny values as arguments, with runs of two steps."""
    fields = {f"{part}.{name}": value for part, values in tiny_values.items() for name, value in values.items()}
    fields |= {"training.steps": 2, "training.batch_size": 4, "training.mu": 1}
    source = fields.pop("data.source")
    del fields["labels.eps"]
    return [source, *(argument for name, value in fields.items() for argument in ("--set", f"{name}={value}"))]


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
