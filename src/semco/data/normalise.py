"""Normalisation of images: the one place where uint8 pixels become the floats that a network reads.

Shapes: N images, C channels, H height, W width.
"""

from __future__ import annotations

import torch
from torch import Tensor


def normalise_images(images: Tensor, mean: Tensor, std: Tensor) -> Tensor:
    """Return (pixel / 255 - mean) / std of uint8 images (N, C, H, W) as float32 in channels-last memory.

    ``mean`` and ``std`` (C,) are those of pixels scaled to [0, 1]. The result is on the device of the images.
    """
    # Scaling mean and std instead of the pixels saves a pass over the images.
    shift, scale = (each.float().to(images.device).view(-1, 1, 1) * 255 for each in (mean, std))
    return (images - shift).div_(scale).contiguous(memory_format=torch.channels_last)
