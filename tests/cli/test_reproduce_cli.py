"""``semco reproduce`` from the command to the page, on tiny data."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from semco.cli.reproduce import format_hours
from semco.experiment.paper.reproduction import StepEstimate
from tests.cli.in_process import run_here

pytestmark = pytest.mark.usefixtures("plain_figures")


@pytest.fixture(autouse=True)
def no_timing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(StepEstimate, "_per_image", lambda *_: 0.001)


def test_the_plan_of_everything_is_one_json_object() -> None:
    done = run_here("reproduce", "all", "--dry-run", "--json")
    assert done.returncode == 0, done.stderr
    plan = json.loads(done.stdout)
    assert len(plan["cells"]) > 58 + 11 + 8 + 4
    for gpu in ("2080 Ti", "V100", "A100"):
        assert plan["hours"][gpu] == pytest.approx(sum(cell["hours"][gpu] for cell in plan["cells"]), abs=1)
    assert {"table", "row", "column", "published", "recipe", "steps"} <= plan["cells"][0].keys()


def test_the_plan_fits_80_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    done = run_here("reproduce", "table1", "table3", "--dry-run")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert "table3: Table 3: label grouping and co-training" in lines
    rows = [line.rstrip() for line in lines if "307,200" in line]
    assert len(rows) == 58 + 8
    assert rows[0].startswith("Pseudo-Label      cifar10-250          49.78±0.43 307,200 ")
    assert max(map(len, rows)) <= 80


def test_the_plan_of_everything_comes_before_the_groups_and_ends_with_the_total() -> None:
    done = run_here("reproduce", "all", "--dry-run")
    assert done.returncode == 0, done.stderr
    headings = [
        line.partition(":")[0] for line in done.stdout.splitlines() if line.startswith(("table", "fig", "groups:"))
    ]
    assert headings[0] == "table1"
    assert headings[-1] == "groups"
    assert "hours: about" in done.stdout.splitlines()[-1]
    assert "pairs of classes" in done.stdout.partition("\ngroups: ")[2].splitlines()[0]


def test_json_without_a_dry_run_is_refused() -> None:
    done = run_here("reproduce", "table3", "--json")
    assert done.returncode == 2
    assert "--dry-run" in done.stderr


def test_groups_are_one_json_object() -> None:
    done = run_here("reproduce", "groups", "--json")
    assert done.returncode == 0, done.stderr
    shown = json.loads(done.stdout)
    assert shown["labels"]["source"] == "plain"
    (mini,) = (one for one in shown["groups"] if one["data"] == "mini-imagenet" and one["is_papers"])
    assert mini["eps"] == 0.3
    assert mini["scores"]["retrofitted"]["right"] >= 20
    assert mini["scores"]["retrofitted"]["published"] == 24
    assert len({one["eps"] for one in shown["groups"] if one["data"] == "domainnet-real"}) == 10


def test_groups_for_people() -> None:
    done = run_here("reproduce", "groups")
    assert "mini-imagenet, eps 0.3: " in done.stdout
    assert "22 of 24, 0.44" in done.stdout
    assert "none published" in next(line for line in done.stdout.splitlines() if line.startswith("cifar10 "))


def test_finished_runs_are_skipped_and_nothing_is_compared_with_another_setting(
    trained: list[str], tiny_options: list[str], tmp_path: Path
) -> None:
    source, *settings = tiny_options
    command = ["reproduce", "table4", "--only", "cifar100-2500", "--scale", "cpu", "--seeds", "0"]
    command += ["--set", f"data.source={source}", *settings, "--out", tmp_path / "paper"]
    done = run_here(*command)
    assert done.returncode == 0, done.stderr
    assert len(trained) == 2
    assert "not the published setting" in done.stdout
    assert "31.93" not in done.stdout.split("hours: about")[1]  # the plan has it, the results have not
    assert (tmp_path / "paper" / "paper-cpu.html").is_file()
    assert run_here(*command).returncode == 0
    assert len(trained) == 2


@pytest.mark.parametrize(
    ("hours", "text"), [(0.0412, "0.041"), (1.26, "1.3"), (12.3, "12"), (346, "346"), (49_645.8, "50,000")]
)
def test_hours(hours: float, text: str) -> None:
    assert format_hours(hours) == text


def test_two_shards_are_the_whole_table(trained: list[str], tiny_options: list[str], tmp_path: Path) -> None:
    source, *settings = tiny_options
    command = ["reproduce", "table3", "--only", "cifar100-2500", "--scale", "cpu", "--seeds", "0"]
    command += ["--set", f"data.source={source}", *settings, "--out", tmp_path / "paper"]
    for shard in ("1/2", "2/2"):
        done = run_here(*command, "--shard", shard)
        assert done.returncode == 0, done.stderr
        assert f"shard {shard}: 2 of 2 run(s) done" in done.stderr
    assert len(trained) == len(set(trained)) == 4
    assert not (tmp_path / "paper" / "paper-cpu.html").exists()
    assert run_here(*command).returncode == 0
    assert len(trained) == 4
