"""How long a step of SemCo takes, next to the authors' way of doing it, and what it is spent on.

The authors' way: all views in one pass forward and backward, images channel by channel in memory, nothing compiled.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from semco.bench.rehearsal import Setting, made_up_task, rehearse
from semco.bench.worker import measuring, take_turns
from semco.errors import UserError
from semco.methods.base import Forward, Method
from semco.models.averaging import update_ema
from semco.training.forward import NetworkForward
from semco.training.loop import Silent, Trainer
from semco.training.memory import kept_for_reuse
from semco.training.statistics import FiniteWatch, Meters
from semco.types import Batch, Outputs, Progress, StepResult

AUTHORS, EAGER = "authors", "maps made again"
FULL = Setting()
QUICK = Setting(backbone="wrn-10-1", batch_size=4, mu=2, classes=6, image_size=16, pool=100)
# What a target of the profile counts: everything but the network and its gradients.
AROUND = ("views", "losses", "optimiser", "average", "statistics")


def step(threads: int = 2, repeats: int = 8, quick: bool = False, compiled: bool = True) -> dict[str, Any]:
    """Every measurement; ``quick`` is a trial of the measurement itself, on next to nothing."""
    base, many = (QUICK, 60) if quick else (FULL, 10_000)
    return {
        "setting": asdict(base),
        "threads": threads,
        "repeats": repeats,
        "ways": compare_ways(base, threads, repeats, compiled),
        "semantics": compare_methods(base, (base.classes, many), threads, repeats),
        "profile": profile(base, threads, repeats),
    }


def ways_of(base: Setting, compiled: bool = True) -> dict[str, Setting]:
    """From the authors' way to ours, one change after the other."""
    kept = replace(base, recompute="off")
    ways = {
        AUTHORS: replace(kept, target_views="joint", channels_last=False, keep_memory=False),
        "targets without gradient": replace(kept, channels_last=False, keep_memory=False),
        "channels last": replace(kept, keep_memory=False),
        "memory kept": kept,
        EAGER: base,
    }
    return {**ways, "compiled": replace(base, compile="on")} if compiled else ways


def compare_ways(base: Setting, threads: int, repeats: int, compiled: bool = True) -> dict[str, dict[str, Any]]:
    """Time, memory and their ratios to the authors' way, by the name of the way."""
    measured = take_turns(ways_of(base, compiled), repeats, threads)
    authors = measured[AUTHORS]
    for way in measured.values():
        way["times_faster"] = round(authors["cpu_s"] / way["cpu_s"], 2)
        way["times_faster_by_the_clock"] = round(authors["wall_s"] / way["wall_s"], 2)
        way["times_faster_usually"] = round(authors["median_wall_s"] / way["median_wall_s"], 2)
        way["memory_ratio"] = round(way["memory_mb"] / authors["memory_mb"], 2)
    if compiled:
        measured["compiled"] |= _cost_of_compiling(measured[EAGER], measured["compiled"])
    return measured


def _cost_of_compiling(eager: Mapping[str, float], compiled: Mapping[str, float]) -> dict[str, Any]:
    """Seconds on the cores, and the steps after which they have come back (None where they never do)."""
    cost, saved = compiled["first_cpu_s"] - eager["first_cpu_s"], eager["cpu_s"] - compiled["cpu_s"]
    return {"compile_cpu_s": round(cost, 1), "pays_after_steps": round(cost / saved) if saved > 0 else None}


def compare_methods(base: Setting, classes: tuple[int, ...], threads: int, repeats: int) -> dict[str, dict[str, float]]:
    """What SemCo's step takes beyond FixMatch's, by the number of classes."""
    settings = {
        f"{method} {k}": replace(base, method=method, classes=k, pool=max(base.pool, k))
        for k in classes
        for method in ("fixmatch", "semco")
    }
    measured = take_turns(settings, repeats, threads)
    compared = {}
    for k in classes:
        fixmatch, semco = measured[f"fixmatch {k}"], measured[f"semco {k}"]
        compared[str(k)] = {
            "fixmatch_cpu_s": fixmatch["cpu_s"],
            "semco_cpu_s": semco["cpu_s"],
            "above_percent": round(100 * (semco["cpu_s"] / fixmatch["cpu_s"] - 1), 1),
        }
    return compared


def profile(base: Setting, threads: int, repeats: int) -> dict[str, Any]:
    """Milliseconds on the cores of each part of a step, each run by itself; best of ``repeats``."""
    command = [sys.executable, "-c", _PROFILE, json.dumps(asdict(base)), str(repeats)]
    done = subprocess.run(command, capture_output=True, text=True, env=measuring(threads), check=False)
    if done.returncode:
        raise UserError(f"the profile ended early: {done.stderr.strip().splitlines()[-1]}.")
    milliseconds: dict[str, float] = json.loads(done.stdout)
    total = sum(milliseconds.values())
    return {
        "parts_ms": {name: round(value, 2) for name, value in milliseconds.items()},
        "parts_percent": {name: round(100 * value / total, 2) for name, value in milliseconds.items()},
        "around_percent": round(100 * sum(milliseconds[name] for name in AROUND) / total, 2),
    }


_PROFILE = """
import json, sys
from semco.bench.step import Setting, milliseconds_of
print(json.dumps(milliseconds_of(Setting(**json.loads(sys.argv[1])), int(sys.argv[2]))))
"""


def milliseconds_of(setting: Setting, repeats: int) -> dict[str, float]:
    """The parts of a step, in this process."""
    with tempfile.TemporaryDirectory() as folder, kept_for_reuse(torch.device("cpu")) as keep:
        keep()
        parts = parts_of_a_step(setting, rehearse(setting, Path(folder) / "run", Silent()))
        return {name: 1000 * _best(part, repeats) for name, part in parts.items()}


def parts_of_a_step(setting: Setting, trainer: Trainer) -> dict[str, Callable[[], object]]:
    """Each part of a step as a function of nothing."""
    batch, truth = trainer.batches.batch(0)
    trainer.network.train()
    script = Script(NetworkForward(trainer.network, trainer.average))
    losses = partial(_losses, trainer.method, batch, script)
    result = losses()
    script.network()  # gradients for the optimiser
    meters, watch = Meters(made_up_task(setting).groups), FiniteWatch()

    def statistics() -> None:
        meters.add(result, truth)
        watch.look(result, 0)
        watch.culprits()

    return {
        "views": lambda: trainer.batches.batch(1),
        "network": script.network,
        "losses": losses,
        "optimiser": trainer.optimiser.step,
        "average": lambda: update_ema(trainer.average, trainer.network, 0.999),
        "statistics": statistics,
    }


def _losses(method: Method[Any], batch: Batch, forward: Forward) -> StepResult:
    """Pseudo-labels, losses and their gradients down to the heads' outputs."""
    result = method.compute(batch, forward, Progress(0, 1, 1, torch.Generator()))
    result.total.backward()
    return result


class Script:
    """`Forward` that runs the network once and from then on repeats what it said, as leaves with gradients."""

    def __init__(self, forward: NetworkForward) -> None:
        self._forward = forward
        self._views: dict[str, Any] = {}
        self._said: dict[str, Outputs] = {}

    def __call__(self, *, no_grad: Mapping[str, Tensor] | None = None, **views: Tensor) -> dict[str, Outputs]:
        if not self._said:
            self._views = {"no_grad": no_grad, **views}
            said = self._forward(**self._views)
            self._said = {name: _leaves(out, name in views) for name, out in said.items()}
        return self._said

    def network(self) -> None:
        """The network's part: the views forward, and back from gradients of the shape of what was said."""
        said = self._forward(**self._views)
        outputs = [t for out in said.values() for t in _tensors(out) if t.requires_grad]
        torch.autograd.backward(outputs, [torch.full_like(t, 1e-6) for t in outputs])

    def teacher(self, **views: Tensor) -> dict[str, Outputs]:
        return self._forward.teacher(**views)

    def without_statistics(self, **views: Tensor) -> dict[str, Outputs]:
        return self._forward.without_statistics(**views)

    def heads(self, features: Tensor) -> Outputs:
        return self._forward.heads(features)


def _tensors(outputs: Outputs) -> list[Tensor]:
    return [t for t in (outputs.logits, outputs.embedding) if t is not None]


def _leaves(outputs: Outputs, with_gradient: bool) -> Outputs:
    fresh = outputs.detach()
    for tensor in _tensors(fresh):
        tensor.requires_grad_(with_gradient)
    return fresh


def _best(part: Callable[[], object], repeats: int) -> float:
    """Least seconds on the cores of three calls and more."""
    times = []
    for _ in range(max(3, repeats)):
        begun = time.process_time()
        part()
        times.append(time.process_time() - begun)
    return min(times)
