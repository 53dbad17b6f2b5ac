"""Weak, strong and plain views of images: uint8 in, normalised floats in channels-last memory out.

Weak: pad by reflection, crop, flip. Strong: the same, then RandAugment, then Cutout (FixMatch, Sohn et al. 2020).

Shapes: N images, C channels (1 or 3), H height, W width, M views.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Generator, Tensor

from semco.config import AugmentConfig
from semco.data.augment import native, tensors
from semco.data.augment.draws import StrongDraws, WeakDraws, draw_strong, draw_weak, nothing
from semco.data.normalise import normalise_images
from semco.errors import UserError
from semco.types import Views

Paint = Callable[[Tensor, WeakDraws, StrongDraws, float, Tensor, Tensor], None]


class Augment:
    """Views of uint8 images (N, C, H, W), on the device of the images.

    The same state of the generator (a CPU one) gives the same views on every device and with any number of threads.
    """

    def __init__(self, config: AugmentConfig, mean: Tensor, std: Tensor, dtype: torch.dtype = torch.float32) -> None:
        """``mean`` and ``std`` (C,) are of values in [0, 1]; ``dtype`` is that of the views."""
        self.config, self.dtype = config, dtype
        self.mean, self.std = mean.float(), std.float()

    def weak(self, images: Tensor, generator: Generator) -> Tensor:
        return self.views(images, 1, 0, generator).weak[0]

    def strong(self, images: Tensor, generator: Generator) -> Tensor:
        return self.views(images, 0, 1, generator).strong[0]

    def plain(self, images: Tensor) -> Tensor:
        """The images themselves, only normalised."""
        _check(images, len(self.mean))
        return normalise_images(images, self.mean, self.std).to(self.dtype)

    def views(self, images: Tensor, weak: int, strong: int, generator: Generator) -> Views:
        """``weak`` and ``strong`` views of the same images."""
        _check(images, len(self.mean))
        n, channels, height, width = images.shape
        crops = draw_weak(self.config, (weak + strong) * n, (height, width), generator)
        draws = draw_strong(self.config, strong * n, (height, width), generator)
        views = torch.empty((weak + strong, n, height, width, channels), dtype=self.dtype, device=images.device)
        images, paint = images.contiguous(), painter(images.device)
        table = self._table(images.device)
        # A weak view is a strong one that draws nothing and is not cut.
        paint(images, crops[: weak * n], nothing(weak * n), 0, table, views[:weak].flatten(0, 1))
        paint(images, crops[weak * n :], draws, self.config.cutout, table, views[weak:].flatten(0, 1))
        each = views.permute(0, 1, 4, 2, 3).unbind()
        return Views(weak=each[:weak], strong=each[weak:])

    def _table(self, device: torch.device) -> Tensor:
        """Return what each of the 256 pixel values becomes in each channel: (C, 256)."""
        every_value = torch.arange(256, dtype=torch.uint8, device=device).repeat(1, len(self.mean), 1, 1)
        return normalise_images(every_value, self.mean, self.std)[0, :, 0].to(self.dtype)


def painter(device: torch.device) -> Paint:
    """What makes views there: machine code on a CPU, calls on tensors elsewhere."""
    return native.paint if device.type == "cpu" else tensors.paint


def _check(images: Tensor, channels: int) -> None:
    """Views are made of uint8 batches with as many channels as there are means."""
    if images.dtype != torch.uint8 or images.dim() != 4 or images.shape[1] != channels or channels not in (1, 3):
        raise UserError(
            f"views are made of uint8 images of shape (N, {channels}, H, W) with 1 or 3 channels, "
            f"not {str(images.dtype).removeprefix('torch.')} of shape {tuple(images.shape)}; convert the images first."
        )
