"""Make views by tensor operations, on any device: each operation is applied to all views that need it.

Shapes: N images, C channels (1 or 3), M views, H height, W width.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from semco.data.augment.draws import StrongDraws, WeakDraws, cutout_bounds
from semco.data.augment.geometry import crop_and_flip
from semco.data.augment.operations import GREY
from semco.data.augment.packed import PACKED, pack, packed_value, unpack
from semco.data.augment.randaugment import apply_operations, at_a_time
from semco.data.normalise import normalise_into

# Pixels of the strong views made together: enough for every operation to have several views, and a limit on memory.
BLOCK = 1 << 22


# Inference mode lowers the cost of each of the many small operations.
@torch.inference_mode()
def render_weak(images: Tensor, crops: WeakDraws, mean: Tensor, std: Tensor, out: Tensor) -> None:
    """Write cropped and flipped ``images`` (N, C, H, W) to ``out`` (M, H, W, C); view i shows image i modulo N."""
    size = (images.shape[2], images.shape[3])
    for shown, part in _blocks(len(images), len(out), at_a_time(size)):
        normalise_into(out[part], unpack(_cropped(images[shown], crops[part])), mean, std)


@torch.inference_mode()
def render_strong(
    images: Tensor, crops: WeakDraws, draws: StrongDraws, cutout: float, mean: Tensor, std: Tensor, out: Tensor
) -> None:
    """Do the same with the drawn operations (Cubuk et al. 2020), then Cutout (DeVries & Taylor 2017).

    Cutout fills a fraction ``cutout`` of each side with grey.
    """
    size = (images.shape[2], images.shape[3])
    for shown, part in _blocks(len(images), len(out), max(1, BLOCK // (size[0] * size[1]))):
        views, rows = apply_operations(_cropped(images[shown], crops[part]), draws[part])
        cut, step = cutout_bounds(draws[part], cutout, size), at_a_time(size)
        for to, row, bounds in zip(out[part].split(step), rows.split(step), cut.split(step), strict=True):
            pixels = views.index_select(0, row.to(views.device))
            _cut_out(pixels, bounds)
            normalise_into(to, unpack(pixels), mean, std)


def _blocks(images: int, views: int, step: int) -> Iterator[tuple[slice, slice]]:
    """Yield up to ``step`` images at a time, and the views that show them."""
    for first in range(0, views, max(1, images)):
        for start in range(0, images, step):
            stop = min(start + step, images)
            yield slice(start, stop), slice(first + start, first + stop)


def _cropped(images: Tensor, crops: WeakDraws) -> Tensor:
    """Return cropped and flipped images (N, C, H, W) as packed views (N, H, W)."""
    count, channels, height, width = images.shape
    views = torch.empty((count, height * width), dtype=PACKED[channels], device=images.device)
    for shown, part in _blocks(count, count, at_a_time((height, width))):
        index = crop_and_flip(crops[part], (height, width)).to(images.device)
        torch.index_select(pack(images[shown].transpose(0, 1)).flatten(), 0, index, out=views[part].view(-1))
    return views.view(count, height, width)


def _cut_out(views: Tensor, cut: Tensor) -> None:
    """Fill the rectangles ``cut`` (M, 4) of packed views (M, H, W) with grey."""
    height, width = views.shape[1:]
    rows, columns = _outside(cut[:, :2], height).to(views), _outside(cut[:, 2:], width).to(views)
    grey = packed_value(GREY, views)
    # Inside, all bits are cleared; several times as fast as filling by a mask.
    views.bitwise_xor_(grey).bitwise_and_(rows[:, :, None] | columns[:, None, :]).bitwise_xor_(grey)


def _outside(bounds: Tensor, side: int) -> Tensor:
    """Return -1 (all bits) for those of 0..side-1 that are outside the two bounds (M, 2), 0 for the others."""
    position = torch.arange(side)
    return -((position < bounds[:, :1]) | (position >= bounds[:, 1:])).int()
