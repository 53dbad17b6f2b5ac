"""Runs with ``labels.groups=learned``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file

from semco.config import Config, configure, merge
from semco.errors import UserError
from semco.evaluation.run import evaluate_run
from semco.experiment import resume, train
from semco.methods import Method
from semco.report import write_report
from semco.run.identity import run_digest
from tests.experiment.same_runs import StopAt, assert_same_run, lines_of

pytestmark = pytest.mark.usefixtures("no_page")
METHODS: dict[str, dict[str, Any]] = {
    "semco": {"name": "semco", "tau_o": 0.4},
    "freematch": {"name": "semco_plus"},
    "flexmatch": {"name": "semco_plus", "thresholds": {"rule": "flexmatch", "tau_e": 0.5, "tau_o": 0.4}},
    "softmatch": {"name": "semco_plus", "thresholds": "softmatch"},
}


def config_of(values: dict[str, Any], method: dict[str, Any], groups: str = "learned") -> Config:
    return configure(options=merge(values, {"method": method, "labels": {"groups": groups}}))


@pytest.fixture
def easily_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits at which the confusion of a few steps changes groups."""
    monkeypatch.setattr("semco.labels.learned.FEWEST_OBSERVATIONS", 1.0)
    monkeypatch.setattr("semco.labels.learned.MERGE", 0.05)
    monkeypatch.setattr("semco.labels.learned.SPLIT", 0.05)


def read(file: Path) -> dict[str, Any]:
    values: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return values


@pytest.mark.usefixtures("easily_changed")
@pytest.mark.parametrize("kind", METHODS)
def test_a_crashed_run_resumes_with_its_groups(tiny_values: dict[str, Any], tmp_path: Path, kind: str) -> None:
    """Groups may change at steps 3, 6 and 9; checkpoints are written after steps 3, 6, 9 (before that) and 12."""
    values = merge(tiny_values, {"training": {"steps": 12, "checkpoint_every": 3, "log_every": 2}})
    config = config_of(values, METHODS[kind])
    train(config, tmp_path / "whole")
    with pytest.raises(RuntimeError, match="crash"):
        train(config, tmp_path / "broken", StopAt(5))
    for step in (8, 10):
        with pytest.raises(RuntimeError, match="crash"):
            resume(tmp_path / "broken", StopAt(step))
    resume(tmp_path / "broken")
    assert_same_run(tmp_path / "whole", tmp_path / "broken")
    labels = [read(tmp_path / run / "labels.json") for run in ("whole", "broken")]
    assert labels[0] == labels[1]
    assert labels[0]["changes"], "a test in which no group changes says nothing"


@pytest.mark.usefixtures("easily_changed", "plain_figures")
def test_the_groups_at_the_end_are_those_of_evaluation_and_report(
    tiny_values: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("semco.labels.learned.SPLIT", 1e6)  # more than any two classes are confused
    run = tmp_path / "run"
    train(config_of(tiny_values, METHODS["freematch"]), run)
    labels = read(run / "labels.json")
    assert labels["groups"] != [0, 0, 1, 1]  # those of the names
    assert labels["groups"] == read(run / "evaluation.json")["groups"] == read(run / "model" / "model.json")["groups"]
    assert evaluate_run(run).group_ids.tolist() == labels["groups"]
    (run / "pseudo_labels.parquet").unlink()  # as after a kill while the run was finished
    resume(run)
    assert read(run / "labels.json") == labels
    write_report([run], run / "report.html")
    assert "follow what the model confused" in (run / "report.html").read_text(encoding="utf-8")


def test_groups_of_the_names_leave_no_trace(tiny_values: dict[str, Any], tmp_path: Path) -> None:
    train(config_of(tiny_values, METHODS["freematch"], groups="names"), tmp_path / "run")
    assert "changes" not in read(tmp_path / "run" / "labels.json")
    file = max((tmp_path / "run" / "checkpoints").rglob("*.safetensors"))
    saved = {name for name in load_file(file) if name.startswith("method.")}
    assert not {name for name in saved if "groups" in name or "prior" in name}


def test_until_the_first_moment_nothing_is_different(tiny_values: dict[str, Any], tmp_path: Path) -> None:
    for groups in ("names", "learned"):
        train(config_of(tiny_values, METHODS["freematch"], groups), tmp_path / groups)
    for named, learned in zip(lines_of(tmp_path / "names")[:3], lines_of(tmp_path / "learned")[:3], strict=True):
        losses = {name: value for name, value in named.items() if name.startswith("loss")}
        assert {name: learned[name] for name in losses} == pytest.approx(losses, rel=1e-4, abs=1e-6)


def test_the_checksum_of_earlier_runs_stays(tiny_values: dict[str, Any]) -> None:
    named, learned = (config_of(tiny_values, METHODS["semco"], groups) for groups in ("names", "learned"))
    assert run_digest(named) == run_digest(configure(options=merge(tiny_values, {"method": METHODS["semco"]})))
    assert run_digest(named) != run_digest(learned)


def test_very_many_classes_are_refused(
    tiny_values: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("semco.experiment.problem.MOST_CLASSES", 3)
    with pytest.raises(UserError, match=r"at most 3 classes, not 4; use labels\.groups=names\."):
        train(config_of(tiny_values, METHODS["semco"]), tmp_path / "run")


@pytest.mark.parametrize("method", sorted(set(Method.registry) - {"semco", "semco_plus"}))
def test_other_methods_refuse_the_field(tiny_values: dict[str, Any], tmp_path: Path, method: str) -> None:
    with pytest.raises(UserError, match=rf"labels.groups=learned .* {method} has none .* semco, semco_plus\."):
        train(config_of(tiny_values, {"name": method}), tmp_path / "run")
