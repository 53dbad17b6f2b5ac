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
from typing import get_args

import torch

from benchmarks.child import run_code
from benchmarks.rows import Row
from benchmarks.synthetic import Setting, compute_inputs, make_network, make_task
from benchmarks.worker import measure_in_turns, worker_environment
from semco.methods import build_method
from semco.models.tuning import Tune

MODES: tuple[Tune, ...] = get_args(Tune)
TRAINED = {"all": "all layers", "top": "the last stages and heads", "heads": "the heads"}
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
) -> list[Row]:
    """Return time and memory of a step in each mode beside those of one that trains all layers, and the frozen pass.

    ``quick`` uses a tiny network and tiny images, to try out the measurement itself.
    """
    given = replace(FULL, image_size=image_size, batch_size=batch_size, pool=4 * batch_size)
    base = QUICK if quick else given
    measured = measure_in_turns({mode: replace(base, tune=mode) for mode in MODES}, repeats, threads)
    rows = rows_of_modes(base, measured)
    for mode in MODES:
        if mode != "all":
            frozen = time_frozen_pass(replace(base, tune=mode), threads)
            rows.append(Row(f"frozen layers below {TRAINED[mode]}, once per view", "CPU ms", frozen["cpu_ms_per_view"]))
    return rows


def rows_of_modes(base: Setting, measured: Mapping[str, Mapping[str, float]]) -> list[Row]:
    """Return time and memory of a step in each mode."""
    step, every = f"step of SemCo+ on {base.backbone} at {base.image_size} pixels", measured["all"]
    rows = []
    for mode, found in measured.items():
        alternative = (None, "") if mode == "all" else (every["cpu_s"], TRAINED["all"])
        memory = (None, "") if mode == "all" else (every["memory_mb"], TRAINED["all"])
        rows += [
            Row(f"{step}, {TRAINED[mode]} trained", "CPU s", found["cpu_s"], found["median_cpu_s"], *alternative),
            Row(f"memory of it, {TRAINED[mode]} trained", "MB", found["memory_mb"], None, *memory),
        ]
    return rows


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
