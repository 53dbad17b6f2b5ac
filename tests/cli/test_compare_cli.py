"""``semco compare`` without a length: equal steps or equal time, and the same command again."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from rich.console import Console
from safetensors.torch import save_file

from semco.cli.compare import pseudo_label_table
from semco.config import ModelConfig
from semco.experiment import lengths
from semco.experiment.comparison import PSEUDO_LABELS, HeadRow
from semco.experiment.context import Context
from semco.experiment.plan import Speed
from semco.models import build_backbone
from semco.run.folder import RunFolder
from tests.cli.in_process import run_here

pytestmark = pytest.mark.usefixtures("plain_figures")
# Seconds of a step, so that 20 and 30 steps fit into 15 minutes.
SECONDS = {"fixmatch": 45.0, "supervised": 30.0}


@pytest.fixture
def timed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The methods that were timed."""
    names: list[str] = []

    def measure(context: Context) -> Speed:
        names.append(context.config.method.name)
        return Speed(SECONDS[names[-1]], 0.0, repeats=1)

    monkeypatch.setattr(lengths, "measure_speed", measure)
    return names


@pytest.fixture
def command(tiny_values: dict[str, Any], tmp_path: Path) -> Sequence[object]:
    """A comparison from scratch for which no length is given."""
    fields = tiny_values["augment"] | {"flip": False}
    settings = [f"augment.{name}={value}" for name, value in fields.items()]
    given = ["--labels-per-class", 4, "--backbone", "tiny", "--batch-size", 4, "--mu", 1, "--from-scratch"]
    several = [part for setting in [*settings, "training.precision=float32"] for part in ("--set", setting)]
    data = tiny_values["data"]["source"]
    methods = ["--methods", "supervised,fixmatch", "--seeds", "0", "--out", tmp_path / "out"]
    return ["compare", data, *given, *several, *methods]


def steps_of(out: Path) -> dict[str, int]:
    return {path.name: RunFolder(path).result().steps for path in sorted(out.iterdir()) if path.is_dir()}


def test_the_same_command_again_shows_the_result(
    command: Sequence[object], trained: list[str], timed: list[str], tmp_path: Path
) -> None:
    first, again = run_here(*command), run_here(*command)
    assert (first.returncode, again.returncode) == (0, 0), first.stderr + again.stderr
    assert trained == ["supervised-seed0", "fixmatch-seed0"]  # by the first
    assert timed == ["supervised", "fixmatch"]
    assert steps_of(tmp_path / "out") == {"fixmatch-seed0": 20, "supervised-seed0": 20}
    for done in (first, again):
        assert "equal steps, 20 per run, 15 min for the slowest here" in " ".join(done.stdout.split())
        assert "FixMatch" in done.stdout
    assert json.loads((tmp_path / "out" / "plan.json").read_text())["steps"] == {"supervised": 20, "fixmatch": 20}


def test_an_interrupted_comparison_goes_on_with_its_plan(
    command: Sequence[object], trained: list[str], timed: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as broken:
        broken.setattr("semco.experiment.engines.local._run_command", lambda *_: (1, "error: the disk is full.\n"))
        assert run_here(*command).returncode == 1
    monkeypatch.setitem(SECONDS, "fixmatch", 15.0)  # the machine is faster now, which changes nothing
    assert run_here(*command).returncode == 0
    assert len(timed) == len(trained) == 2
    assert set(steps_of(tmp_path / "out").values()) == {20}


@pytest.mark.usefixtures("timed")
def test_equal_time_is_a_choice_that_the_table_names(
    command: Sequence[object], trained: list[str], tmp_path: Path
) -> None:
    done = run_here(*command, "--equal", "time")
    assert done.returncode == 0, done.stderr
    assert steps_of(tmp_path / "out") == {"fixmatch-seed0": 20, "supervised-seed0": 30}
    expected = "equal time, 15 min per run here; steps: supervised 30, fixmatch 20"
    assert expected in " ".join(done.stdout.split())
    refused = run_here(*command)
    assert refused.returncode == 2
    assert refused.stderr.count("error:") == 1
    assert f"holds a comparison with {expected}; repeat it with the same options" in " ".join(refused.stderr.split())
    assert run_here(*command, "--equal", "time").returncode == 0
    assert len(trained) == 2


def test_the_comparison_of_the_docs_from_loaded_weights_can_be_repeated(
    trained: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command of docs/pretrained.md with a tiny network: nothing is timed, and no length is given."""
    random = np.random.default_rng(0)
    for name in ("dog", "cat"):
        (tmp_path / "photos" / name).mkdir(parents=True)
        for i in range(8):
            pixels = random.integers(0, 256, (8, 8, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(tmp_path / "photos" / name / f"{i}.png")
    torch.manual_seed(0)
    save_file(build_backbone(ModelConfig(backbone="tiny"), 3, 8).state_dict(), tmp_path / "tiny.safetensors")
    monkeypatch.setattr(lengths, "MOST_STEPS", 2)
    network = ["--backbone", "tiny", "--set", f"model.weights={tmp_path / 'tiny.safetensors'}", "--batch-size", 4]
    methods = ["--methods", "linear_probe,fixmatch,semco_plus", "--seeds", "0,1", "--labels-per-class", 5]
    given = [*network, *methods, "--set", "data.validation=none", "--out", "runs/compared"]
    for _ in range(2):
        done = run_here("compare", "photos", *given, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert "equal steps, 2 per run" in " ".join(done.stdout.split())
    assert len(trained) == len(set(trained)) == 6


def test_two_shards_are_the_whole_comparison(trained: list[str], tiny_options: list[str], tmp_path: Path) -> None:
    command = ["compare", *tiny_options, "--methods", "supervised,fixmatch", "--seeds", "0,1,2", "--out", tmp_path]
    whole = {f"{method}-seed{seed}" for method in ("supervised", "fixmatch") for seed in range(3)}
    first = run_here(*command, "--shard", "1/2")
    assert first.returncode == 0, first.stderr
    assert "shard 1/2: 3 run(s) done" in first.stderr
    assert len(trained) == 3
    assert not (tmp_path / "results.csv").exists()
    assert run_here(*command, "--shard", "2/2").returncode == 0
    assert len(trained) == 6
    assert set(trained) == whole
    assert run_here(*command).returncode == 0
    assert len(trained) == 6
    assert len((tmp_path / "results.csv").read_text().splitlines()) == 7


def test_shards_need_one_length(tiny_options: list[str], tmp_path: Path) -> None:
    source, *settings = tiny_options
    kept = [each for each in settings[1::2] if not each.startswith("training.steps")]
    options = [source, *(part for each in kept for part in ("--set", each))]
    done = run_here("compare", *options, "--methods", "supervised", "--out", tmp_path, "--shard", "1/2")
    assert done.returncode == 2
    assert "need one length" in done.stderr


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--cpus", "2"], "--address, --cpus and --gpus are for --engine ray"),
        (["--engine", "ray", "--jobs", "2"], "--jobs is for --engine local"),
        (["--shard", "3/2"], "a shard is i/n"),
    ],
)
def test_options_of_the_other_engine_are_refused(
    options: list[str], sentence: str, tiny_options: list[str], tmp_path: Path
) -> None:
    done = run_here("compare", *tiny_options, "--methods", "supervised", "--out", tmp_path / "runs", *options)
    assert done.returncode == 2
    assert sentence in " ".join(done.stderr.split())


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


@pytest.mark.usefixtures("trained")
def test_variants_of_one_method_are_named_as_they_were_typed(tiny_options: list[str], tmp_path: Path) -> None:
    methods = "fixmatch,semco_plus,semco_plus+no-grouping"
    done = run_here("compare", *tiny_options, "--methods", methods, "--seeds", "0", "--out", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    first, _, second = done.stdout.partition("pseudo-labels of the final model")
    for table in (first, second):
        assert "FixMatch" in table
        assert "SemCo+" not in table
    for line in ("semco_plus+no-grouping", "semco_plus "):
        assert line in first
    assert "+no-grouping" in [line[:16].strip() for line in second.splitlines()]


def test_the_pages_of_a_comparison_have_the_names_that_were_typed(
    trained: list[str], tiny_options: list[str], tmp_path: Path
) -> None:
    """`trained` leaves the pages of the runs empty, not that of the comparison."""
    out = tmp_path / "out"
    varied = ["--methods", "semco", "--vary", "labels.eps=0,0.3", "--seeds", "0", "--out", out]
    assert run_here("compare", *tiny_options, *varied).returncode == 0
    page = (out / "report.html").read_text(encoding="utf-8")
    for name in trained:
        assert f"<td>{name.removesuffix('-seed0')}</td>" in page


def test_long_variants_are_broken() -> None:
    means: dict[str, float | None] = dict.fromkeys(PSEUDO_LABELS, 0.5)
    variants = ["semco+labels.source=plain+labels.eps=0.2", "semco_plus", "semco_plus+no-grouping"]
    rows = [HeadRow(variant, head, means) for variant in variants for head in ("one_hot", "semantic")]
    text = io.StringIO()
    Console(file=text, width=80).print(pseudo_label_table(rows, {name: name for name in variants}))
    lines = [line.rstrip() for line in text.getvalue().splitlines()]
    assert max(map(len, lines)) <= 80
    assert len(lines) == 2 + 6 * 3 + 2  # title and headings; rows of one line each; what the columns are
    first = [line[:16].rstrip() for line in lines[2:-2]]
    assert "".join(first) == "".join(variants)
    assert "semco_plus" in first
    assert "+no-grouping" in first


def test_each_number_about_pseudo_labels_has_a_cell_of_its_own() -> None:
    means: dict[str, float | None] = dict.fromkeys(PSEUDO_LABELS) | {
        "ratio": 0.01,
        "accuracy": 0.93,
        "group_accuracy": 0.95,
    }
    grouped = {"ratio/grouped": 0.5, "surest_accuracy/grouped": 0.35}
    rows = [HeadRow("fixmatch", "one_hot", means), HeadRow("semco", "semantic", means | grouped)]
    text = io.StringIO()
    Console(file=text, width=120).print(pseudo_label_table(rows, {"fixmatch": "FixMatch", "semco": "SemCo"}))
    printed = [line.split() for line in text.getvalue().splitlines()[2:5]]
    assert printed == [
        ["FixMatch", "one-hot", "all", "1%", "93%", "95%", "–"],  # no row of grouped classes: there are none
        ["SemCo", "semantic", "all", "1%", "93%", "95%", "–"],
        ["grouped", "50%", "–", "–", "35%"],
    ]
