"""Time of the frozen layers of a network in every engine that is installed, and of loading that engine.

The engines take turns, and must compute the same to 1e-4 of the largest feature.
"""

from __future__ import annotations

import time
from functools import partial
from typing import get_args

import torch
from torch import nn

from benchmarks.peak import PRODUCTS, count_gflop, measure_peak
from benchmarks.rows import Row, cpu_in_turns
from semco.config import ModelConfig
from semco.models import build_backbone
from semco.models.engines import LayerEngine, compile_layers, installed_engines
from semco.training.allocator import reuse_freed_memory

EAGER = "torch, layer by layer"


def bench_engines(
    backbone: str = "efficientnet-lite0", size: int = 224, threads: int = 2, repeats: int = 5, images: int = 32
) -> list[Row]:
    """Return the CPU milliseconds per image of each engine beside the limit of matrix products, and loading it."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        return _measure(backbone, size, repeats, images)
    finally:
        torch.set_num_threads(before)


def _measure(backbone: str, size: int, repeats: int, images: int) -> list[Row]:
    plain = build_backbone(ModelConfig(backbone=backbone), 3, size).eval().requires_grad_(False)
    pixels = torch.rand(images, 3, size, size, generator=torch.Generator().manual_seed(0))
    layers: dict[str, nn.Module] = {EAGER: plain}
    loading: dict[str, float] = {}
    for name in get_args(LayerEngine):
        if name in installed_engines():
            before = time.process_time()
            layers[name] = compile_layers(plain, (3, size, size), name)
            loading[name] = time.process_time() - before
    with torch.inference_mode(), reuse_freed_memory(torch.device("cpu")) as keep_memory:
        expected = plain(pixels)
        keep_memory()
        for name, each in layers.items():
            assert torch.allclose(each(pixels), expected, atol=1e-4 * float(expected.abs().max())), name
        seconds = cpu_in_turns({name: partial(each, pixels) for name, each in layers.items()}, repeats)
        gflop, peak = count_gflop(lambda: plain(pixels[:1])), measure_peak().gflops
    milliseconds = {name: tuple(1000 * each / images for each in found) for name, found in seconds.items()}
    eager, limit = milliseconds.pop(EAGER), 1000 * gflop / peak
    rows = [Row(f"an image of {size} pixels by {EAGER}", "CPU ms", *eager, limit=limit, limited_by=PRODUCTS)]
    for name, found in milliseconds.items():
        rows.append(Row(f"the same by {name}", "CPU ms", *found, eager[0], EAGER, limit, PRODUCTS))
        rows.append(Row(f"loading {name}", "CPU s", loading[name]))
    return rows
