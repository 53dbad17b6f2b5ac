"""Time of the frozen layers of a network in every engine that is installed, and of loading that engine.

The engines take turns, and the best turn of each counts.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, get_args

import torch
from torch import nn

from benchmarks.peak import count_gflop, measure_peak
from semco.config import ModelConfig
from semco.models import build_backbone
from semco.models.engines import LayerEngine, compile_layers, installed_engines
from semco.training.allocator import reuse_freed_memory

EAGER = "torch, layer by layer"


def bench_engines(
    backbone: str = "efficientnet-lite0", size: int = 224, threads: int = 2, repeats: int = 5, images: int = 32
) -> dict[str, Any]:
    """Return the milliseconds per image of each engine, its share of the peak, and the CPU seconds of loading it."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        rows = _measure(backbone, size, repeats, images)
    finally:
        torch.set_num_threads(before)
    return {"backbone": backbone, "size": size, "threads": threads, "repeats": repeats, "engines": rows}


def _measure(backbone: str, size: int, repeats: int, images: int) -> dict[str, dict[str, float]]:
    plain = build_backbone(ModelConfig(backbone=backbone), 3, size).eval().requires_grad_(False)
    pixels = torch.rand(images, 3, size, size, generator=torch.Generator().manual_seed(0))
    layers: dict[str, nn.Module] = {EAGER: plain}
    loading: dict[str, float] = {EAGER: 0.0}
    for name in get_args(LayerEngine):
        if name in installed_engines():
            before = time.process_time()
            layers[name] = compile_layers(plain, (3, size, size), name)
            loading[name] = round(time.process_time() - before, 2)
    with torch.inference_mode(), reuse_freed_memory(torch.device("cpu")) as keep_memory:
        expected = plain(pixels)
        keep_memory()
        best = {name: _Best() for name in layers}
        for _ in range(repeats):
            for name, each in layers.items():
                best[name].measure(lambda each=each: each(pixels))  # type: ignore[misc]
        gflop, peak = count_gflop(lambda: plain(pixels[:1])), measure_peak().gflops
        differences = {name: float((each(pixels) - expected).abs().max()) for name, each in layers.items()}
    return {
        name: {
            "ms_per_image": round(1000 * best[name].wall / images, 2),
            "cpu_ms_per_image": round(1000 * best[name].cpu / images, 2),
            "load_cpu_s": loading[name],
            "difference": differences[name],
            "share_of_peak": round(gflop * images / best[name].cpu / peak, 3),
        }
        for name in layers
    }


class _Best:
    """The least wall and CPU time of several calls."""

    wall = cpu = float("inf")

    def measure(self, call: Callable[[], object]) -> None:
        wall, cpu = time.perf_counter(), time.process_time()
        call()
        self.wall, self.cpu = min(self.wall, time.perf_counter() - wall), min(self.cpu, time.process_time() - cpu)
