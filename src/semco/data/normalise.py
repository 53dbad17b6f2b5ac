"""Normalisation of images: the one place where uint8 pixels become the floats that a network reads.

``mean`` and ``std`` (C,) are those of pixels scaled to [0, 1].

Shapes: N images, C channels, H height, W width.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor


def normalise_images(images: Tensor, mean: Tensor, std: Tensor) -> Tensor:
    """Return (pixel / 255 - mean) / std of uint8 images (N, C, H, W) as float32 in channels-last memory."""
    count, channels, height, width = images.shape
    out = torch.empty((count, height, width, channels), device=images.device)
    normalise_into(out, images.transpose(0, 1), mean, std)
    return out.permute(0, 3, 1, 2)


def normalise_into(out: Tensor, planes: Iterable[Tensor], mean: Tensor, std: Tensor) -> None:
    """Write the same of C channels ``planes`` (N, H, W) to ``out`` (N, H, W, C), which is contiguous."""
    for channel, plane in enumerate(planes):
        out[..., channel].copy_(plane)
    # Scaling mean and std instead of the pixels saves a pass; whole rows are faster than single pixels.
    shift, scale = ((each.float().to(out.device) * 255).repeat(out.shape[2]) for each in (mean, std))
    out.view(-1, len(shift)).sub_(shift).div_(scale)
