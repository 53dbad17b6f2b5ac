"""Time of making views, compared with a Pillow loop that makes the same views, on one core.

The two take turns and the best turn of each counts, so that other load on the machine hardly changes their ratio.
Freed memory is reused, as it is during training.

Shapes: N images, C channels, H height, W width.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from benchmarks import pillow_views
from benchmarks.peak import measure_peak
from benchmarks.rows import Row, best_and_median
from benchmarks.synthetic import make_images
from semco.config import AugmentConfig
from semco.data.augment.draws import draw_strong, draw_weak
from semco.data.views import Augment
from semco.training.allocator import reuse_freed_memory

BATCH = 448  # images of a SemCo+ step with 64 labelled images and mu = 3: 64 + 2 * 192
CONFIG = AugmentConfig()
MEAN, STD = 0.5, 0.25
WEAK, STRONG, PAIR = "weak view", "strong view", "weak and strong view"


def bench_augment(size: int = 32, batch: int = BATCH, repeats: int = 30) -> list[Row]:
    """Return the microseconds per image of weak views, strong views and pairs of both, ours and Pillow's.

    The images are a batch of shape (``batch``, 3, ``size``, ``size``). The limit is to copy their pixels once.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with reuse_freed_memory(torch.device("cpu")) as keep_memory:
            keep_memory()
            ours, pillow = _measure_in_turns(make_images(batch, size), repeats)
            peak = measure_peak().copied_gb
    finally:
        torch.set_num_threads(threads)
    return [
        Row(f"{kind}, {size} x {size}", "CPU us", *best_and_median(seconds, 1e6 / batch),
            best_and_median(pillow[kind], 1e6 / batch)[0], "Pillow", _bytes(kind, size) / 1000 / peak, "copying")
        for kind, seconds in ours.items()
    ]  # fmt: skip


def _bytes(kind: str, size: int) -> int:
    """Return the bytes that are read (uint8) and written (float32) per image, if each pixel is touched once."""
    return 3 * size * size * (1 + 4 * (2 if kind == PAIR else 1))


def _measure_in_turns(images: Tensor, repeats: int) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    """Return the CPU seconds of each turn by kind of view, ours and those of the Pillow loop."""
    augment = Augment(CONFIG, torch.full((3,), MEAN), torch.full((3,), STD))
    generator = torch.Generator().manual_seed(0)
    ways = {
        WEAK: lambda: augment.weak(images, generator),
        STRONG: lambda: augment.strong(images, generator),
        PAIR: lambda: augment.views(images, 1, 1, generator),
    }
    loops = {kind: _pillow_loop(images, kind, augment, generator) for kind in ways}
    ours: dict[str, list[float]] = {kind: [] for kind in ways}
    pillow: dict[str, list[float]] = {kind: [] for kind in ways}
    for turn in range(repeats):
        for kind in ways:
            ours[kind].append(_seconds(ways[kind]))
            if turn % 3 == 0:  # the Pillow loop takes much longer and varies less
                pillow[kind].append(_seconds(loops[kind]))
    return ours, pillow


def _pillow_loop(images: Tensor, kind: str, augment: Augment, generator: torch.Generator) -> Callable[[], Tensor]:
    """Return a function that makes views image by image; it normalises them as one batch, which is fastest."""
    arrays = list(images.permute(0, 2, 3, 1).contiguous().numpy())
    size = (images.shape[2], images.shape[3])

    def loop() -> Tensor:
        views = []
        for is_strong in {WEAK: [False], STRONG: [True], PAIR: [False, True]}[kind]:
            weak = draw_weak(CONFIG, len(arrays), size, generator)
            strong = draw_strong(CONFIG, len(arrays), size, generator)
            for image, choice in zip(arrays, pillow_views.choices(weak, strong), strict=True):
                view = pillow_views.weak_view(image, choice)
                views.append(pillow_views.strong_view(view, choice, CONFIG.cutout) if is_strong else view)
        return augment.plain(torch.from_numpy(np.stack(views)).permute(0, 3, 1, 2))

    return loop


def _seconds(function: Callable[[], object]) -> float:
    """Return the CPU seconds of a call, which do not include waiting for the core."""
    start = time.thread_time()
    function()
    return time.thread_time() - start
