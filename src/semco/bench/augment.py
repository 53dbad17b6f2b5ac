"""How long views take, next to a Pillow loop that makes the same ones: microseconds an image on one core.

The two take turns and the best turn of each counts, so that what else the machine does matters little to their ratio.
Freed memory is kept for reuse, as it is while training runs.

Shapes: N images, C channels, H height, W width.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from semco.bench import pillow_views
from semco.bench.rehearsal import pictures
from semco.config import AugmentConfig
from semco.data.augment.draws import draw_strong, draw_weak
from semco.data.views import Augment
from semco.training.memory import kept_for_reuse

BATCH = 448  # images of a SemCo step with 64 labelled images and mu = 3: 64 + 2 * 192
CONFIG = AugmentConfig()
MEAN, STD = 0.5, 0.25


def augment(size: int = 32, batch: int = BATCH, repeats: int = 30) -> dict[str, Any]:
    """Time weak views, strong views and pairs of both, of ``batch`` images of 3 x ``size`` x ``size``."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with kept_for_reuse(torch.device("cpu")) as keep:
            keep()
            ours, pillow = _take_turns(pictures(batch, size), repeats)
    finally:
        torch.set_num_threads(threads)
    return {
        "size": size,
        "batch": batch,
        "repeats": repeats,
        "ours_us": ours,
        "pillow_us": pillow,
        "ratio": {kind: round(pillow[kind] / ours[kind], 2) for kind in ours},
    }


def _take_turns(images: Tensor, repeats: int) -> tuple[dict[str, float], dict[str, float]]:
    """Best microseconds an image by kind of view, of ours and of the Pillow loop."""
    maker = Augment(CONFIG, torch.full((3,), MEAN), torch.full((3,), STD))
    generator = torch.Generator().manual_seed(0)
    ours = {
        "weak": lambda: maker.weak(images, generator),
        "strong": lambda: maker.strong(images, generator),
        "pair": lambda: maker.views(images, 1, 1, generator),
    }
    pillow = {kind: _pillow_loop(images, kind, maker, generator) for kind in ours}
    best = {"ours": dict.fromkeys(ours, np.inf), "pillow": dict.fromkeys(ours, np.inf)}
    for turn in range(repeats):
        for kind in ours:
            best["ours"][kind] = min(best["ours"][kind], _seconds(ours[kind]))
            if turn % 3 == 0:  # the loop takes much longer and varies less
                best["pillow"][kind] = min(best["pillow"][kind], _seconds(pillow[kind]))
    each = {who: {kind: round(t * 1e6 / len(images), 2) for kind, t in times.items()} for who, times in best.items()}
    return each["ours"], each["pillow"]


def _pillow_loop(images: Tensor, kind: str, maker: Augment, generator: torch.Generator) -> Callable[[], Tensor]:
    """A function that makes views of ``kind``, image by image; normalised together, which is fastest."""
    arrays = list(images.permute(0, 2, 3, 1).contiguous().numpy())
    size = (images.shape[2], images.shape[3])

    def loop() -> Tensor:
        made = []
        for strongly in {"weak": [False], "strong": [True], "pair": [False, True]}[kind]:
            weak = draw_weak(CONFIG, len(arrays), size, generator)
            strong = draw_strong(CONFIG, len(arrays), size, generator)
            for image, choice in zip(arrays, pillow_views.choices(weak, strong), strict=True):
                view = pillow_views.weak_view(image, choice)
                made.append(pillow_views.strong_view(view, choice, CONFIG.cutout) if strongly else view)
        return maker.plain(torch.from_numpy(np.stack(made)).permute(0, 3, 1, 2))

    return loop


def _seconds(function: Callable[[], object]) -> float:
    """Time on the core, so that waiting for it does not count."""
    start = time.thread_time()
    function()
    return time.thread_time() - start
