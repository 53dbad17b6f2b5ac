"""Time of making views, compared with a Pillow loop that makes the same views, on one core.

The two take turns and the best turn of each counts, so that other load on the machine hardly changes their ratio.
Freed memory is reused, as it is during training.

Shapes: N images, C channels, H height, W width.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks import pillow_views
from benchmarks.peak import measure_peak
from benchmarks.synthetic import make_images
from semco.config import AugmentConfig
from semco.data.augment.draws import draw_strong, draw_weak
from semco.data.views import Augment
from semco.training.allocator import reuse_freed_memory

BATCH = 448  # images of a SemCo+ step with 64 labelled images and mu = 3: 64 + 2 * 192
CONFIG = AugmentConfig()
MEAN, STD = 0.5, 0.25


def bench_augment(size: int = 32, batch: int = BATCH, repeats: int = 30) -> dict[str, Any]:
    """Return the microseconds per image of weak views, strong views and pairs of both, ours and Pillow's.

    The images are a batch of shape (``batch``, 3, ``size``, ``size``).
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
    return {
        "size": size,
        "batch": batch,
        "repeats": repeats,
        "ours_us": ours,
        "pillow_us": pillow,
        "ratio": {kind: round(pillow[kind] / ours[kind], 2) for kind in ours},
        "share_of_copying": {kind: round(_bytes(kind, size) / 1000 / us / peak, 4) for kind, us in ours.items()},
    }


def _bytes(kind: str, size: int) -> int:
    """Return the bytes that are read (uint8) and written (float32) per image, if each pixel is touched once."""
    return 3 * size * size * (1 + 4 * (2 if kind == "pair" else 1))


def _measure_in_turns(images: Tensor, repeats: int) -> tuple[dict[str, float], dict[str, float]]:
    """Return the best microseconds per image by kind of view, ours and those of the Pillow loop."""
    augment = Augment(CONFIG, torch.full((3,), MEAN), torch.full((3,), STD))
    generator = torch.Generator().manual_seed(0)
    ours = {
        "weak": lambda: augment.weak(images, generator),
        "strong": lambda: augment.strong(images, generator),
        "pair": lambda: augment.views(images, 1, 1, generator),
    }
    pillow = {kind: _pillow_loop(images, kind, augment, generator) for kind in ours}
    best = {"ours": dict.fromkeys(ours, np.inf), "pillow": dict.fromkeys(ours, np.inf)}
    for turn in range(repeats):
        for kind in ours:
            best["ours"][kind] = min(best["ours"][kind], _seconds(ours[kind]))
            if turn % 3 == 0:  # the Pillow loop takes much longer and varies less
                best["pillow"][kind] = min(best["pillow"][kind], _seconds(pillow[kind]))
    per_image = {
        name: {kind: round(seconds * 1e6 / len(images), 2) for kind, seconds in times.items()}
        for name, times in best.items()
    }
    return per_image["ours"], per_image["pillow"]


def _pillow_loop(images: Tensor, kind: str, augment: Augment, generator: torch.Generator) -> Callable[[], Tensor]:
    """Return a function that makes views image by image; it normalises them as one batch, which is fastest."""
    arrays = list(images.permute(0, 2, 3, 1).contiguous().numpy())
    size = (images.shape[2], images.shape[3])

    def loop() -> Tensor:
        views = []
        for is_strong in {"weak": [False], "strong": [True], "pair": [False, True]}[kind]:
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
