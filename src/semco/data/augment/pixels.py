"""Operations that need the other channels or the neighbours of a pixel; they act on the pixels themselves.

Every function takes ``pixels`` (n, C, P) uint8 and ``factor`` (n, 1, 1), where 1 is the original, and gives new pixels
as integers.

Shapes: C channels, n views, P = H W pixels.
"""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor

from semco.data.augment.points import blend, grey


def color(pixels: Tensor, factor: Tensor, _: tuple[int, int]) -> Tensor:
    """Blend with the grey version of the image; an image of one channel stays as it is."""
    if pixels.shape[1] == 1:
        return pixels
    values = pixels.float()
    return blend(grey(values), values, factor).int()


def sharpness(pixels: Tensor, factor: Tensor, size: tuple[int, int]) -> Tensor:
    """Blend with a version smoothed by (1 1 1; 1 5 1; 1 1 1) / 13, in which the edge pixels stay as they are."""
    values = pixels.float()
    smooth = torch.where(_edge(size, pixels.device), values, _smoothed(values, size[1]))
    return blend(smooth, values, factor).int()


def _smoothed(values: Tensor, width: int) -> Tensor:
    """The filter over all images as one flat list of pixels; only what it says of inner pixels is meant.

    Pillow rounds to nearest in floats. Thirteenths are never halfway between two integers, so any way of rounding
    agrees.
    """
    flat = values.view(-1)
    three = flat.clone()
    three[1:].add_(flat[:-1])
    three[:-1].add_(flat[1:])
    total = torch.add(three, flat, alpha=4)
    total[width:].add_(three[:-width])
    total[:-width].add_(three[width:])
    return total.add_(6.5).mul_(1 / 13).floor_().view_as(values)


@lru_cache(maxsize=8)
def _edge(size: tuple[int, int], device: torch.device) -> Tensor:
    """Which of the P pixels lie on the border."""
    edge = torch.ones(size, dtype=torch.bool, device=device)
    edge[1:-1, 1:-1] = False
    return edge.flatten()
