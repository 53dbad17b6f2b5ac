"""Weak, strong and plain views of images: uint8 images become normalised floats in channels-last memory.

Weak: reflected padding, random crop, random flip. Strong: the same, then RandAugment, then Cutout (FixMatch, Sohn et
al. 2020).

Shapes: N images, C channels (1 or 3), H height, W width, M views.
"""

from __future__ import annotations

import torch
from torch import Generator, Tensor

from semco.config import AugmentConfig
from semco.data.augment.draws import draw_strong, draw_weak
from semco.data.augment.render import render_strong, render_weak
from semco.data.normalise import normalise_images
from semco.errors import UserError
from semco.types import Views


class Augment:
    """Makes views of uint8 images (N, C, H, W), on the device of the images.

    The views depend only on the images and the state of the (CPU) generator, not on the device or the number of
    threads.
    """

    def __init__(self, config: AugmentConfig, mean: Tensor, std: Tensor) -> None:
        """``mean`` and ``std`` (C,) are those of pixels scaled to [0, 1]."""
        self.config = config
        self.mean, self.std = mean.float(), std.float()

    def weak(self, images: Tensor, generator: Generator) -> Tensor:
        """Return one weak view of each image."""
        return self.views(images, 1, 0, generator).weak[0]

    def strong(self, images: Tensor, generator: Generator) -> Tensor:
        """Return one strong view of each image."""
        return self.views(images, 0, 1, generator).strong[0]

    def plain(self, images: Tensor) -> Tensor:
        """Return the images normalised, without augmentation."""
        _check_images(images, len(self.mean))
        return normalise_images(images, self.mean, self.std)

    def views(self, images: Tensor, weak: int, strong: int, generator: Generator) -> Views:
        """Return ``weak`` weak views and ``strong`` strong views of each image."""
        _check_images(images, len(self.mean))
        n, channels, height, width = images.shape
        crops = draw_weak(self.config, (weak + strong) * n, (height, width), generator)
        draws = draw_strong(self.config, strong * n, (height, width), generator)
        views = torch.empty((weak + strong, n, height, width, channels), device=images.device)
        mean, std = self.mean, self.std
        render_weak(images, crops[: weak * n], mean, std, views[:weak].flatten(0, 1))
        render_strong(images, crops[weak * n :], draws, self.config.cutout, mean, std, views[weak:].flatten(0, 1))
        each = views.permute(0, 1, 4, 2, 3).unbind()
        return Views(weak=each[:weak], strong=each[weak:])


def _check_images(images: Tensor, channels: int) -> None:
    """Raise an error unless the images are a uint8 batch with 1 or 3 channels, as many as the means."""
    if images.dtype != torch.uint8 or images.dim() != 4 or images.shape[1] != channels or channels not in (1, 3):
        raise UserError(
            f"views are made of uint8 images of shape (N, {channels}, H, W) with 1 or 3 channels, "
            f"not {str(images.dtype).removeprefix('torch.')} of shape {tuple(images.shape)}; convert the images first."
        )
