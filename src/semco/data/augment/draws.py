"""Random draws for views, made on the CPU so that every device makes the same views.

Shapes: M views, k operations per view.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from semco.config import AugmentConfig
from semco.data.augment.operations import OPERATIONS

LOW = torch.tensor([each.low for each in OPERATIONS], dtype=torch.float64)
RANGE = torch.tensor([each.high - each.low for each in OPERATIONS], dtype=torch.float64)


@dataclass(frozen=True)
class WeakDraws:
    """Random crop and flip of each view."""

    top: Tensor  # (M,) int64: first row of the crop, negative if it is in the padding
    left: Tensor  # (M,) int64: first column of the crop
    flip: Tensor  # (M,) bool

    def __getitem__(self, views: slice) -> WeakDraws:
        return WeakDraws(self.top[views], self.left[views], self.flip[views])


@dataclass(frozen=True)
class StrongDraws:
    """RandAugment operations and the place of Cutout of each view."""

    operation: Tensor  # (k, M) int64: index into OPERATIONS
    magnitude: Tensor  # (k, M) float64: within the range of the operation
    cut_y: Tensor  # (M,) int64: row of the centre of Cutout
    cut_x: Tensor  # (M,) int64: column of the centre of Cutout

    def __getitem__(self, views: slice) -> StrongDraws:
        return StrongDraws(self.operation[:, views], self.magnitude[:, views], self.cut_y[views], self.cut_x[views])


def draw_weak(config: AugmentConfig, views: int, size: tuple[int, int], generator: Generator) -> WeakDraws:
    """Draw crops uniformly within the padded image, and flip half of the views."""
    top, left = (_draw_offsets(padding(config, side), views, generator) for side in size)
    flip = torch.randint(0, 2, (views,), generator=generator) == 1
    return WeakDraws(top, left, flip & config.flip)


def padding(config: AugmentConfig, side: int) -> int:
    """Return the pixels of padding on either end of a side.

    Reflection without repeating the edge pixel gives at most ``side - 1``; larger paddings are cut to that.
    """
    pixels = round(config.pad * side) if config.pad_pixels is None else config.pad_pixels
    return min(pixels, side - 1)


def _draw_offsets(margin: int, views: int, generator: Generator) -> Tensor:
    return torch.randint(-margin, margin + 1, (views,), generator=generator)


def draw_strong(config: AugmentConfig, views: int, size: tuple[int, int], generator: Generator) -> StrongDraws:
    """Draw operations (with replacement), magnitudes in their range and the centre of Cutout, all uniformly."""
    shape = (config.operations, views)
    operation = torch.randint(0, len(OPERATIONS), shape, generator=generator)
    level = torch.rand(shape, dtype=torch.float64, generator=generator)
    cut_y, cut_x = (torch.randint(0, side, (views,), generator=generator) for side in size)
    return StrongDraws(operation, LOW[operation] + RANGE[operation] * level, cut_y, cut_x)


def cutout_bounds(draws: StrongDraws, part: float, size: tuple[int, int]) -> Tensor:
    """Return the bounds of Cutout, (M, 4): top, bottom, left, right.

    The rectangles are ``part`` of each side long, centred on the drawn pixels, and clipped at the edge of the image.
    """
    bounds = []
    for centre, side in zip((draws.cut_y, draws.cut_x), size, strict=True):
        length = round(part * side)
        start = centre - length // 2
        bounds += [start.clamp(min=0), (start + length).clamp(max=side)]
    return torch.stack(bounds, dim=1)
