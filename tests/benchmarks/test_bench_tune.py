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
from benchmarks.tune import FULL, MODES, QUICK, bench_tune, measure_frozen_pass, rows_of_modes, time_frozen_pass
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


def test_all_layers_are_what_the_others_are_compared_with() -> None:
    seconds = {"all": 6.0, "top": 1.5, "heads": 0.04}
    measured = {mode: {"cpu_s": cpu, "median_cpu_s": 2 * cpu, "memory_mb": 100 * cpu} for mode, cpu in seconds.items()}
    rows = rows_of_modes(QUICK, measured)
    assert [row.times_better for row in rows] == [None, None, 4.0, 4.0, 150.0, 150.0]
    assert [row.median for row in rows[::2]] == [12.0, 3.0, 0.08]


def test_size_and_batch_size_are_options(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Setting] = []

    def fake(settings: Mapping[str, Setting], repeats: int, threads: int) -> dict[str, dict[str, float]]:
        assert (repeats, threads) == (5, 2)
        seen.extend(settings.values())
        return {mode: {"cpu_s": 1.0, "median_cpu_s": 1.0, "memory_mb": 1.0} for mode in settings}

    monkeypatch.setattr(bench, "measure_in_turns", fake)
    monkeypatch.setattr(bench, "time_frozen_pass", lambda setting, _: {"cpu_ms_per_view": len(setting.tune)})
    rows = bench_tune(image_size=160, batch_size=8)
    expected = replace(FULL, image_size=160, batch_size=8, pool=32)
    assert seen == [replace(expected, tune=mode) for mode in MODES]
    assert [row.best for row in rows if row.what.startswith("frozen")] == [3, 5]


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
    steps = [row.best for row in result if row.what.startswith("step")]
    assert steps[2] < steps[0]  # heads, all layers
    assert all(row.best > 0 for row in result)
