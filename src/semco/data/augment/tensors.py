"""Views as calls on tensors, on any device: each call is for all views that need it.

Shapes: N images, C channels (1 or 3), M views, H height, W width.
"""

from __future__ import annotations

import torch
from torch import Tensor

from semco.data.augment.canvas import Canvas, look_up, new_canvas
from semco.data.augment.draws import StrongDraws, WeakDraws, cut_bounds
from semco.data.augment.geometry import crop_flip
from semco.data.augment.operations import GREY
from semco.data.augment.randaugment import apply_operations

BLOCK = 1 << 22  # pixels of the views made together: enough for each operation to have several, and no more memory


# There are many calls that do little, and each costs less in this mode.
@torch.inference_mode()
def paint(images: Tensor, crops: WeakDraws, draws: StrongDraws, cutout: float, table: Tensor, out: Tensor) -> None:
    """Views of all ``images`` (N, C, H, W) in turn, again and again, into ``out`` (M, H, W, C).

    Crop and flip, the drawn operations (Cubuk et al. 2020), then Cutout (DeVries & Taylor 2017) of a part ``cutout`` of
    each side. ``table`` (C, 256) holds what each value becomes as a float.
    """
    size = (images.shape[2], images.shape[3])
    image = torch.arange(len(out)) % len(images)
    step = max(1, BLOCK // (size[0] * size[1]))
    for start in range(0, len(out), step):
        part = slice(start, start + step)
        canvas = new_canvas(images, image[part], crop_flip(crops[part], size))
        apply_operations(canvas, draws[part])
        _finish(canvas, cut_bounds(draws[part], cutout, size), table, out[part])


def _finish(canvas: Canvas, cut: Tensor, table: Tensor, out: Tensor) -> None:
    """What is on the canvas as floats, but for what lies in the rectangles ``cut`` (M, 4)."""
    # A cut pixel, whose row and column are both inside, finds nothing but grey in its table, which is the first.
    values = torch.cat([torch.full_like(canvas.table[:1], GREY), canvas.table])
    rows = canvas.order.argsort()
    own = (1 + rows)[:, None] * values[0].numel()
    height, width = canvas.size
    row, column = _outside(cut[:, :2], height) * own, _outside(cut[:, 2:], width) * own
    first = (row[:, :, None] | column[:, None, :]).flatten(1).to(out.device, torch.int32)
    codes = canvas.planes.index_select(1, rows.to(out.device)).int().add_(first).flatten(1)
    look_up(table.expand(values.shape).gather(-1, values.long()), codes, out=out.view(-1, len(codes)).T)


def _outside(bounds: Tensor, side: int) -> Tensor:
    """Which of 0..side-1 lie outside begin and end (M, 2): (M, side) bool."""
    position = torch.arange(side)
    return (position < bounds[:, :1]) | (position >= bounds[:, 1:])
