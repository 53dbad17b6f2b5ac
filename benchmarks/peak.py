"""The limits of this machine, per CPU second, measured in the process of what is compared with them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from PIL import Image
from torch.utils.flop_counter import FlopCounterMode

SIDE, COPIED, REPEATS = 1024, 2**24, 10
PRODUCTS = "matrix products"  # the limit of a network


@dataclass(frozen=True)
class Peak:
    """What a CPU second can do."""

    gflops: float
    """Billions of floating-point operations of float32 matrix products."""
    copied_gb: float
    """Gigabytes read and written by copies of memory."""


def measure_peak() -> Peak:
    """Return the best of several matrix products and copies, in as many threads as torch has."""
    matrix, source = torch.rand(SIDE, SIDE), torch.zeros(COPIED)
    product, target = torch.empty_like(matrix), torch.empty_like(source)
    multiplying = best_cpu_seconds(lambda: torch.mm(matrix, matrix, out=product), REPEATS)
    copying = best_cpu_seconds(lambda: target.copy_(source), REPEATS)
    return Peak(2 * SIDE**3 / multiplying / 1e9, 2 * source.nbytes / copying / 1e9)


def decoding_seconds(paths: Sequence[Path], repeats: int = 3) -> float:
    """Return the CPU seconds of decoding photos with Pillow."""
    return best_cpu_seconds(lambda: [Image.open(path).load() for path in paths], repeats)


def count_gflop(call: Callable[[], object]) -> float:
    """Return the billions of floating-point operations of a call, as torch counts them."""
    with FlopCounterMode(display=False) as counter:
        call()
    return counter.get_total_flops() / 1e9


def cpu_seconds(call: Callable[[], object]) -> float:
    """Return the CPU time of a call, over all threads."""
    start = time.process_time()
    call()
    return time.process_time() - start


def best_cpu_seconds(call: Callable[[], object], repeats: int) -> float:
    """Return the minimum CPU time over ``repeats`` calls."""
    return min(cpu_seconds(call) for _ in range(repeats))
