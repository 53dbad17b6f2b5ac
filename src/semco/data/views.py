"""Weak, strong and plain views of images: uint8 in, normalised floats in channels-last memory out.

Weak: pad by reflection, crop, flip. Strong: the same, then RandAugment, then Cutout (FixMatch, Sohn et al. 2020).

Shapes: N images, C channels (1 or 3), H height, W width, M views, P = H W, T codes.
"""

from __future__ import annotations

import torch
from torch import Generator, Tensor

from semco.config import AugmentConfig
from semco.data.augment.canvas import Canvas, Source, identity_table, new_source, render
from semco.data.augment.draws import StrongDraws, WeakDraws, draw_strong, draw_weak
from semco.data.augment.geometry import crop_flip
from semco.data.augment.randaugment import apply_operations, cut_out, repainted
from semco.errors import UserError
from semco.types import Views


class Augment:
    """Views of uint8 images (N, C, H, W), on the device of the images.

    The same state of the generator (a CPU one) gives the same views on every device and with any number of threads.
    """

    def __init__(self, config: AugmentConfig, mean: Tensor, std: Tensor, dtype: torch.dtype = torch.float32) -> None:
        """``mean`` and ``std`` (C,) are of values in [0, 1]; ``dtype`` is that of the views."""
        self.config, self.dtype = config, dtype
        self.mean, self.std = mean.float(), std.float()
        # One code for each place in the sequence of operations, and the last for Cutout.
        self.spare = config.operations + 1

    def weak(self, images: Tensor, generator: Generator) -> Tensor:
        return self.views(images, 1, 0, generator).weak[0]

    def strong(self, images: Tensor, generator: Generator) -> Tensor:
        return self.views(images, 0, 1, generator).strong[0]

    def plain(self, images: Tensor) -> Tensor:
        """The images themselves, only normalised."""
        _check(images, len(self.mean))
        views = self._normalised(images.flatten(2)).view(images.shape)
        return views.contiguous(memory_format=torch.channels_last)

    def views(self, images: Tensor, weak: int, strong: int, generator: Generator) -> Views:
        """``weak`` and ``strong`` views of the same images."""
        _check(images, len(self.mean))
        n, size = len(images), (images.shape[2], images.shape[3])
        crops = draw_weak(self.config, (weak + strong) * n, size, generator)
        draws = draw_strong(self.config, strong * n, size, generator)
        source = new_source(images, self.spare, repainted(draws))
        where = self._crops(n, size, crops, images.device)
        return Views(
            weak=self._weak(source, where[: weak * n]).split(n) if weak else (),
            strong=self._strong(source, where[weak * n :], draws).split(n) if strong else (),
        )

    def _crops(self, n: int, size: tuple[int, int], draws: WeakDraws, device: torch.device) -> Tensor:
        """Maps (M, H, W) of weak views, all images in turn, again and again."""
        image = torch.arange(len(draws.flip)) % n
        image, top, left, flip = (part.to(device) for part in (image, draws.top, draws.left, draws.flip))
        return crop_flip(image, top, left, flip, size, first=self.spare)

    def _weak(self, source: Source, where: Tensor) -> Tensor:
        views = self._empty(where)
        render(source.pixels, where, self._normalised(self._tables(1, where.device)), out=views)
        return views.permute(0, 3, 1, 2)

    def _strong(self, source: Source, where: Tensor, draws: StrongDraws) -> Tensor:
        views, in_order = self._empty(where), torch.arange(len(where))
        canvas = Canvas(source, where, self._tables(len(where), where.device), in_order)
        apply_operations(canvas, draws)
        canvas.arrange(in_order)
        cut_out(canvas, draws, self.config.cutout)
        render(source.pixels, canvas.where, self._normalised(canvas.table), out=views)
        return views.permute(0, 3, 1, 2)

    def _empty(self, where: Tensor) -> Tensor:
        """Room for the views of a map: (M, H, W, C)."""
        return torch.empty((*where.shape, len(self.mean)), dtype=self.dtype, device=where.device)

    def _tables(self, views: int, device: torch.device) -> Tensor:
        """Tables (M, C, T) uint8 that change nothing."""
        return identity_table(256 + self.spare, device).repeat(views, len(self.mean), 1)

    def _normalised(self, values: Tensor) -> Tensor:
        """Values (n, C, T) uint8 as floats of the views' type."""
        mean, std = (each.to(values.device)[:, None] for each in (self.mean, self.std))
        return values.float().sub_(mean * 255).div_(std * 255).to(self.dtype)


def _check(images: Tensor, channels: int) -> None:
    """Views are made of uint8 batches with as many channels as there are means."""
    if images.dtype != torch.uint8 or images.dim() != 4 or images.shape[1] != channels or channels not in (1, 3):
        raise UserError(
            f"views are made of uint8 images of shape (N, {channels}, H, W) with 1 or 3 channels, "
            f"not {str(images.dtype).removeprefix('torch.')} of shape {tuple(images.shape)}; convert the images first."
        )
