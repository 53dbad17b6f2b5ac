"""Time of a step of SemCo+ if the heads, the last stages of the backbone, or all layers are trained.

What is frozen is computed once for all steps, so the time of that pass is reported beside the steps.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, get_args

import torch

from benchmarks.child import run_code
from benchmarks.synthetic import Setting, compute_inputs, make_network, make_task
from benchmarks.worker import measure_in_turns, worker_environment
from semco.methods import build_method
from semco.models.tuning import Tune

MODES: tuple[Tune, ...] = get_args(Tune)
FULL = Setting(
    backbone="efficientnet-lite0", batch_size=16, mu=3, classes=20, image_size=224, pool=64, freeze_norm=True
)
QUICK = replace(FULL, backbone="wrn-10-1", batch_size=4, mu=2, classes=6, image_size=16, pool=32)


def bench_tune(
    image_size: int = FULL.image_size,
    batch_size: int = FULL.batch_size,
    threads: int = 2,
    repeats: int = 5,
    quick: bool = False,
) -> dict[str, Any]:
    """Run all measurements; ``quick`` uses a tiny network and tiny images, to try out the measurement itself."""
    given = replace(FULL, image_size=image_size, batch_size=batch_size, pool=4 * batch_size)
    base = QUICK if quick else given
    return {
        "setting": asdict(base),
        "threads": threads,
        "repeats": repeats,
        "steps": compare_modes(base, threads, repeats),
        "frozen": {mode: time_frozen_pass(replace(base, tune=mode), threads) for mode in MODES if mode != "all"},
    }


def compare_modes(base: Setting, threads: int, repeats: int) -> dict[str, dict[str, Any]]:
    """Return time and memory of a step in each mode, and how many times faster it is than with all layers."""
    measured = measure_in_turns({mode: replace(base, tune=mode) for mode in MODES}, repeats, threads)
    every_layer = measured["all"]
    for mode in measured.values():
        mode["times_faster"] = round(every_layer["cpu_s"] / mode["cpu_s"], 1)
        mode["times_faster_median"] = round(every_layer["median_wall_s"] / mode["median_wall_s"], 1)
    return measured


def time_frozen_pass(setting: Setting, threads: int) -> dict[str, float]:
    """Return the milliseconds per view of the frozen layers, and the bytes of its output, in a new process."""
    arguments, environment = json.dumps(asdict(setting)), worker_environment(threads)
    measured: Mapping[str, float] = run_code("frozen pass", _FROZEN_CODE, arguments, environment=environment)
    return dict(measured)


_FROZEN_CODE = """
import json, sys
from benchmarks.tune import Setting, measure_frozen_pass
print(json.dumps(measure_frozen_pass(Setting(**json.loads(sys.argv[1])))))
"""


def measure_frozen_pass(setting: Setting) -> dict[str, float]:
    """Do the same as `time_frozen_pass` in this process: the views are made, run and written to a file."""
    torch.manual_seed(0)
    method = build_method(setting.config().method, make_task(setting))
    tuned = make_network(setting, method)
    with tempfile.TemporaryDirectory() as folder:
        compute_inputs(setting, tuned, Path(folder) / "warm-up")
        wall, cpu = time.perf_counter(), time.process_time()
        inputs = compute_inputs(setting, tuned, Path(folder) / "measured")
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    milliseconds = 1000 / (setting.pool * (1 + 2 * setting.cached_views))  # of a second, per view
    return {
        "ms_per_view": round(wall * milliseconds, 3),
        "cpu_ms_per_view": round(cpu * milliseconds, 3),
        "bytes": 2 * torch.Size(inputs.shape).numel(),
    }
