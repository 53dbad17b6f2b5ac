"""The measurement of tuning: the modes do what they are called, and the ratios match the times."""

from __future__ import annotations

import io
import json
import sys
import tempfile
from collections.abc import Mapping
from contextlib import redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import torch

from benchmarks import tune as bench
from benchmarks.synthetic import Setting, build_trainer
from benchmarks.tune import FULL, MODES, QUICK, bench_tune, compare_modes, measure_frozen_pass, time_frozen_pass
from benchmarks.worker import StepReporter, StepTimes, peak_mb, summarise
from semco.errors import UserError
from semco.training.observer import NullObserver


def test_semco_plus_on_a_pretrained_backbone_is_measured() -> None:
    assert (FULL.method, FULL.backbone, FULL.image_size) == ("semco_plus", "efficientnet-lite0", 224)
    assert (FULL.batch_size, FULL.mu, FULL.freeze_norm) == (16, 3, True)


@pytest.mark.parametrize(("tune", "shape"), [("all", (3, 16, 16)), ("top", (32, 8, 8)), ("heads", (64,))])
def test_the_modes_read_what_they_train_on(tmp_path: Path, tune: str, shape: tuple[int, ...]) -> None:
    trainer = build_trainer(replace(QUICK, tune=tune), tmp_path / "run", NullObserver())  # type: ignore[arg-type]
    batch, _ = trainer.batches.batch(0)
    assert batch.labelled.weak[0].shape == (4, *shape)
    assert len(list(trainer.network.backbone.layers())) == {"all": 6, "top": 3, "heads": 0}[tune]
    with torch.no_grad():
        assert trainer.network.train()(batch.labelled.weak[0]).logits.shape == (4, 6)
    assert (tmp_path / "features").exists() == (tune != "all")


def test_ratios_match_the_times(monkeypatch: pytest.MonkeyPatch) -> None:
    def fake(settings: Mapping[str, Setting], repeats: int, threads: int) -> dict[str, dict[str, float]]:
        assert (repeats, threads) == (5, 2)
        assert {name: setting.tune for name, setting in settings.items()} == {mode: mode for mode in MODES}
        seconds = {"all": 6.0, "top": 1.5, "heads": 0.04}
        return {name: {"cpu_s": seconds[name], "median_wall_s": 2 * seconds[name] + 1} for name in settings}

    monkeypatch.setattr(bench, "measure_in_turns", fake)
    measured = compare_modes(QUICK, threads=2, repeats=5)
    assert {mode: step["times_faster"] for mode, step in measured.items()} == {"all": 1.0, "top": 4.0, "heads": 150.0}
    medians = {mode: step["times_faster_median"] for mode, step in measured.items()}
    assert medians == {"all": 1.0, "top": 3.2, "heads": 12.0}


def test_size_and_batch_size_are_options(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Setting] = []
    monkeypatch.setattr(bench, "compare_modes", lambda base, *_: seen.append(base) or {})
    monkeypatch.setattr(bench, "time_frozen_pass", lambda setting, _: {"tune": setting.tune})
    result = bench_tune(image_size=160, batch_size=8)
    assert seen == [replace(FULL, image_size=160, batch_size=8, pool=32)]
    assert result["frozen"] == {"top": {"tune": "top"}, "heads": {"tune": "heads"}}


def test_the_frozen_pass_is_timed_per_view() -> None:
    measured = measure_frozen_pass(replace(QUICK, tune="top"))
    assert measured["bytes"] == 2 * 32 * 8 * 8
    assert measured["ms_per_view"] > 0
    assert measured["cpu_ms_per_view"] > 0


def test_a_failed_frozen_pass_raises_an_error_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process ends before its imports, which take seconds; those of a step fail in `test_bench_step`."""
    monkeypatch.setattr(bench, "_FROZEN_CODE", "import sys; sys.exit(sys.argv[1])")
    with pytest.raises(UserError, match=r"process of the frozen pass stopped .*no-such-backbone"):
        time_frozen_pass(replace(QUICK, backbone="no-such-backbone", tune="top"), threads=1)


def measure_here(settings: Mapping[str, Setting], repeats: int, threads: int) -> dict[str, dict[str, Any]]:
    """`measure_in_turns` without processes of its own, whose imports take seconds; `test_bench_step` has them."""
    assert threads == 1
    return {name: summarise(steps_here(setting, repeats)) for name, setting in settings.items()}


def steps_here(setting: Setting, repeats: int) -> list[StepTimes]:
    """Return the times of steps after the first; the lines asked for come to an end, which ends the worker."""
    lines, requests = io.StringIO(), io.StringIO("\n" * repeats)
    with tempfile.TemporaryDirectory() as folder, redirect_stdout(lines), patch.object(sys, "stdin", requests):
        trainer = build_trainer(setting, Path(folder) / "run", StepReporter(peak_mb() - 1))
        with pytest.raises(SystemExit):
            trainer.run()
    return [StepTimes(**json.loads(line)) for line in lines.getvalue().splitlines()[1:]]


def run_code_here(_: str, code: str, *arguments: str, environment: Mapping[str, str]) -> Any:
    """`run_code` without a process of its own."""
    assert environment["OMP_NUM_THREADS"] == "1"
    printed = io.StringIO()
    with redirect_stdout(printed), patch.object(sys, "argv", ["-c", *arguments]):
        exec(code, {})
    return json.loads(printed.getvalue())


def test_a_quick_measurement_runs_to_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "measure_in_turns", measure_here)
    monkeypatch.setattr(bench, "run_code", run_code_here)
    result = bench_tune(threads=1, repeats=1, quick=True)
    assert list(result["steps"]) == list(MODES)
    assert result["steps"]["all"]["times_faster"] == 1.0
    assert result["steps"]["heads"]["times_faster"] > 1.0
    assert all(frozen["ms_per_view"] > 0 for frozen in result["frozen"].values())
