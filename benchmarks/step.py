"""Time and memory of a SemCo+ training step, compared with the authors' way of computing it, and a profile.

The authors' way: all views in one forward and backward pass, images in channels-first memory, nothing compiled.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from benchmarks.child import run_code
from benchmarks.peak import PRODUCTS, best_cpu_seconds, count_gflop, measure_peak
from benchmarks.rows import Row
from benchmarks.synthetic import Setting, build_trainer, make_task
from benchmarks.worker import measure_in_turns, worker_environment
from semco.methods.base import Forward, Method
from semco.models.averaging import update_ema
from semco.training.allocator import reuse_freed_memory
from semco.training.forward import NetworkForward
from semco.training.loop import Trainer
from semco.training.observer import NullObserver
from semco.training.statistics import DivergenceMonitor, Meters
from semco.types import Batch, EveryImage, Outputs, Passes, Progress, StepResult

AUTHORS, EAGER = "authors", "activations recomputed"
JOINT = "one joint pass, as the authors do it"
# Beside the recomputed activations: a step in which no pseudo-label is retained.
TEACHES = "only what teaches (nothing retained)"
FULL = Setting()
QUICK = Setting(backbone="wrn-10-1", batch_size=4, mu=2, classes=6, image_size=16, pool=100)
# The parts of a step other than the network and its gradients.
OTHER_PARTS = ("views", "losses", "optimiser", "ema", "statistics")


def bench_step(threads: int = 2, repeats: int = 8, quick: bool = False) -> list[Row]:
    """Run all measurements; ``quick`` uses a tiny network, to try out the measurement itself."""
    base, many_classes = (QUICK, 60) if quick else (FULL, 10_000)
    measured = measure_in_turns(make_variants(base), repeats, threads)
    parts = profile(base, threads, repeats)
    return [
        *rows_of_variants(base, measured, parts["gflop"] / parts["peak_gflops"]),
        *rows_of_parts(parts["ms"]),
        *compare_methods(base, (base.classes, many_classes), threads, repeats),
    ]


def make_variants(base: Setting) -> dict[str, Setting]:
    """Return the settings from the authors' way to ours by name; each adds one change to the previous one."""
    stored = replace(base, recompute="off")
    return {
        AUTHORS: replace(stored, target_views="joint", channels_last=False, reuse_memory=False),
        "targets without gradient": replace(stored, channels_last=False, reuse_memory=False),
        "channels last": replace(stored, reuse_memory=False),
        "freed memory reused": stored,
        EAGER: base,
        TEACHES: replace(base, skip="on", retains=False),
    }


def rows_of_variants(base: Setting, measured: Mapping[str, Mapping[str, float]], limit: float) -> list[Row]:
    """Return time and memory of a step by variant, beside the authors' way and the seconds of its products at peak."""
    step, authors, rows = f"step of SemCo+, {base.backbone}", measured[AUTHORS], []
    for name, found in measured.items():
        is_authors, is_whole = name == AUTHORS, name != TEACHES  # a step in which nothing is retained computes less
        time = (None if is_authors else authors["cpu_s"], "" if is_authors else JOINT)
        memory = (None if is_authors else authors["memory_mb"], "" if is_authors else JOINT)
        peak = (limit if is_whole else None, PRODUCTS if is_whole else "")
        rows += [
            Row(f"{step}, {name}", "CPU s", found["cpu_s"], found["median_cpu_s"], *time, *peak),
            Row(f"memory of it, {name}", "MB", found["memory_mb"], None, *memory),
        ]
    return rows


def rows_of_parts(milliseconds: Mapping[str, float]) -> list[Row]:
    """Return the time of the network and of everything else in a step."""
    others = sum(milliseconds[name] for name in OTHER_PARTS)
    return [
        Row("the network in a step of SemCo+", "CPU ms", milliseconds["network"]),
        Row("everything else in it", "CPU ms", others),
        *(Row(f"of it {name}", "CPU ms", milliseconds[name]) for name in OTHER_PARTS),
    ]


def compare_methods(base: Setting, classes: tuple[int, ...], threads: int, repeats: int) -> list[Row]:
    """Return the time of a SemCo+ step beside that of FixMatch, by number of classes."""
    settings = {
        f"{method} {k}": replace(base, method=method, classes=k, pool=max(base.pool, k))
        for k in classes
        for method in ("fixmatch", "semco_plus")
    }
    measured = measure_in_turns(settings, repeats, threads)
    rows = []
    for k in classes:
        ours, fixmatch = measured[f"semco_plus {k}"], measured[f"fixmatch {k}"]["cpu_s"]
        what = f"step of SemCo+, {k:,} classes"
        rows.append(Row(what, "CPU s", ours["cpu_s"], ours["median_cpu_s"], fixmatch, "a step of FixMatch"))
    return rows


def profile(base: Setting, threads: int, repeats: int) -> dict[str, Any]:
    """Do the same as `time_parts` in another process."""
    arguments = (json.dumps(asdict(base)), str(repeats))
    measured: dict[str, Any] = run_code("profile", _PROFILE_CODE, *arguments, environment=worker_environment(threads))
    return measured


_PROFILE_CODE = """
import json, sys
from benchmarks.step import Setting, time_parts
print(json.dumps(time_parts(Setting(**json.loads(sys.argv[1])), int(sys.argv[2]))))
"""


def time_parts(setting: Setting, repeats: int) -> dict[str, Any]:
    """Return the CPU milliseconds of each part of a step, the operations of its network, and this process's peak."""
    with tempfile.TemporaryDirectory() as folder, reuse_freed_memory(torch.device("cpu")) as keep_memory:
        keep_memory()
        parts = step_parts(setting, build_trainer(setting, Path(folder) / "run", NullObserver()))
        return {
            "ms": {name: 1000 * best_cpu_seconds(part, max(3, repeats)) for name, part in parts.items()},
            "gflop": count_gflop(parts["network"]),
            "peak_gflops": measure_peak().gflops,
        }


def step_parts(setting: Setting, trainer: Trainer) -> dict[str, Callable[[], object]]:
    """Return each part of a step as a function without arguments."""
    batch, truth = trainer.batches.batch(0)
    trainer.network.train()
    forward = RecordedForward(NetworkForward(trainer.network, trainer.average))
    losses = partial(_compute_losses, trainer.method, batch, forward)
    result = losses()
    forward.run_network()  # makes gradients for the optimiser
    pool_size = len(trainer.batches.pool[0])
    meters, divergence = Meters(make_task(setting).group_ids, pool_size), DivergenceMonitor()

    def statistics() -> None:
        meters.add(result, truth, batch.unlabelled_index)
        divergence.check(result, 0)
        divergence.first_divergence()

    return {
        "views": lambda: trainer.batches.batch(1),
        "network": forward.run_network,
        "losses": losses,
        "optimiser": trainer.state.optimiser.step,
        "ema": lambda: update_ema(trainer.average, trainer.network, 0.999),
        "statistics": statistics,
    }


def _compute_losses(method: Method[Any], batch: Batch, forward: Forward) -> StepResult:
    """Compute pseudo-labels, losses and their gradients with respect to the outputs of the heads."""
    result = method.compute(batch, forward, Progress(0, 1, 1, torch.Generator()))
    result.total.backward()
    return result


class RecordedForward:
    """A `Forward` that runs the network at the first call, and returns the same outputs at every later call.

    The outputs of views with gradient are leaves of the graph, so that a backward pass ends there.
    """

    def __init__(self, forward: NetworkForward) -> None:
        self._forward = forward
        self._views: dict[str, Any] = {}
        self._outputs: dict[str, Outputs] = {}

    def __call__(self, *, no_grad: Mapping[str, Tensor] | None = None, **views: Tensor) -> dict[str, Outputs]:
        if not self._outputs:
            self._views = {"no_grad": no_grad, **views}
            outputs = self._forward(**self._views)
            self._outputs = {name: _make_leaves(out, name in views) for name, out in outputs.items()}
        return self._outputs

    def begin(self, *, no_grad: Mapping[str, Tensor], **views: Tensor) -> Passes:
        return EveryImage(self(no_grad=no_grad, **views))

    def run_network(self) -> None:
        """Run the recorded views forward, then backward from constant gradients of the outputs."""
        outputs = self._forward(**self._views)
        tensors = [t for out in outputs.values() for t in _head_outputs(out) if t.requires_grad]
        torch.autograd.backward(tensors, [torch.full_like(t, 1e-6) for t in tensors])

    def teacher(self, **views: Tensor) -> dict[str, Outputs]:
        return self._forward.teacher(**views)

    def without_statistics(self, **views: Tensor) -> dict[str, Outputs]:
        return self._forward.without_statistics(**views)

    def heads(self, features: Tensor) -> Outputs:
        return self._forward.heads(features)


def _head_outputs(outputs: Outputs) -> list[Tensor]:
    return [t for t in (outputs.logits, outputs.embedding) if t is not None]


def _make_leaves(outputs: Outputs, with_gradient: bool) -> Outputs:
    leaves = outputs.detach()
    for tensor in _head_outputs(leaves):
        tensor.requires_grad_(with_gradient)
    return leaves
