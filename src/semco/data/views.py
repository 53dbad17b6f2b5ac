"""Weak, strong and plain views of images: uint8 in, normalised floats in channels-last memory out.

Weak: pad by reflection, crop, flip. Strong: the same, then RandAugment, then Cutout (FixMatch, Sohn et al. 2020).

Shapes: N images, C channels (1 or 3), H height, W width, M views, P = H W.
"""

from __future__ import annotations

import torch
from torch import Generator, Tensor

from semco.config import AugmentConfig
from semco.data.augment.canvas import GREY, Canvas, chunks, crop, new_canvas, render
from semco.data.augment.draws import StrongDraws, WeakDraws, draw_strong, draw_weak
from semco.data.augment.geometry import crop_flip
from semco.data.augment.randaugment import apply_operations, cut_out, first_order
from semco.errors import UserError
from semco.types import Views

BLOCK = 1 << 22  # pixels of the views made together: enough for each operation to have several


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
        views = self._normalised(images.flatten(2)).view(images.shape)
        return views.contiguous(memory_format=torch.channels_last)

    def views(self, images: Tensor, weak: int, strong: int, generator: Generator) -> Views:
        """``weak`` and ``strong`` views of the same images."""
        _check(images, len(self.mean))
        n, channels, height, width = images.shape
        crops = draw_weak(self.config, (weak + strong) * n, (height, width), generator)
        draws = draw_strong(self.config, strong * n, (height, width), generator)
        views = torch.empty((weak + strong, n, height, width, channels), dtype=self.dtype, device=images.device)
        # There are many calls that do little, and each costs less in this mode; the views are made outside of it,
        # so that training may use them.
        with torch.inference_mode():
            images = images.contiguous()
            for index in range(weak):
                self._weak(images, crops[index * n : (index + 1) * n], out=views[index])
            self._strong(images, crops[weak * n :], draws, out=views[weak:].flatten(0, 1))
        each = views.permute(0, 1, 4, 2, 3).unbind()
        return Views(weak=each[:weak], strong=each[weak:])

    def _weak(self, images: Tensor, crops: WeakDraws, out: Tensor) -> None:
        """A weak view of each image, into (N, H, W, C)."""
        size = (images.shape[2], images.shape[3])
        row, column = crop_flip(crops, size)
        for part in chunks(len(images), size[0] * size[1]):
            normalised = self._normalised(images[part].flatten(2)).unflatten(2, size)
            values = out[part].flatten(1, 2).permute(2, 0, 1)
            crop(normalised, torch.arange(len(normalised)), (row[part], column[part]), values)

    def _strong(self, images: Tensor, crops: WeakDraws, draws: StrongDraws, out: Tensor) -> None:
        """Strong views of all images in turn, again and again, into (M, H, W, C)."""
        size = (images.shape[2], images.shape[3])
        image = torch.arange(len(out)) % len(images)
        for part in chunks(len(out), size[0] * size[1], BLOCK):
            order = first_order(draws[part])
            canvas = new_canvas(images, image[part][order], crop_flip(crops[part][order], size), order)
            self._paint(canvas, draws[part], out=out[part])

    def _paint(self, canvas: Canvas, draws: StrongDraws, out: Tensor) -> None:
        """RandAugment and Cutout of what is on the canvas, into (M, H, W, C)."""
        apply_operations(canvas, draws)
        # A cut pixel, whose row and column are both inside, finds nothing but grey in its table, which is the first.
        table = torch.cat([torch.full_like(canvas.table[:1], GREY), canvas.table])
        rows = canvas.order.argsort()
        own = (1 + rows)[:, None] * table[0].numel()
        row, column = (outside * own for outside in cut_out(draws, self.config.cutout, canvas.size))
        render(canvas.planes, rows, self._normalised(table), (row, column), out)

    def _normalised(self, values: Tensor) -> Tensor:
        """Values (n, C, ...) uint8 as floats of the views' type."""
        mean, std = (each.to(values.device)[:, None] for each in (self.mean, self.std))
        return values.float().sub_(mean * 255).div_(std * 255).to(self.dtype)


def _check(images: Tensor, channels: int) -> None:
    """Views are made of uint8 batches with as many channels as there are means."""
    if images.dtype != torch.uint8 or images.dim() != 4 or images.shape[1] != channels or channels not in (1, 3):
        raise UserError(
            f"views are made of uint8 images of shape (N, {channels}, H, W) with 1 or 3 channels, "
            f"not {str(images.dtype).removeprefix('torch.')} of shape {tuple(images.shape)}; convert the images first."
        )
