"""Make views by tensor operations, on any device: each operation is applied to all views that need it.

Shapes: N images, C channels (1 or 3), M views, H height, W width.
"""

from __future__ import annotations

import torch
from torch import Tensor

from semco.data.augment.canvas import Canvas, look_up, new_canvas
from semco.data.augment.draws import StrongDraws, WeakDraws, cutout_bounds
from semco.data.augment.geometry import crop_and_flip
from semco.data.augment.operations import GREY
from semco.data.augment.randaugment import apply_operations

# Pixels of the views made together: enough for every operation to have several views, and a limit on memory.
BLOCK = 1 << 22


# Inference mode lowers the cost of each of the many small operations.
@torch.inference_mode()
def render_views(
    images: Tensor, crops: WeakDraws, draws: StrongDraws, cutout: float, table: Tensor, out: Tensor
) -> None:
    """Write views of ``images`` (N, C, H, W) to ``out`` (M, H, W, C); view i shows image i modulo N.

    Crop and flip, then the drawn operations (Cubuk et al. 2020), then Cutout (DeVries & Taylor 2017) of a fraction
    ``cutout`` of each side. ``table`` (C, 256) contains the normalised float of each value.
    """
    size = (images.shape[2], images.shape[3])
    image = torch.arange(len(out)) % len(images)
    step = max(1, BLOCK // (size[0] * size[1]))
    for start in range(0, len(out), step):
        part = slice(start, start + step)
        canvas = new_canvas(images, image[part], crop_and_flip(crops[part], size))
        apply_operations(canvas, draws[part])
        _write_views(canvas, cutout_bounds(draws[part], cutout, size), table, out[part])


def _write_views(canvas: Canvas, cut: Tensor, table: Tensor, out: Tensor) -> None:
    """Write the views to ``out`` as floats, with grey in the rectangles ``cut`` (M, 4)."""
    # Pixels inside the rectangle use the first table, which maps every value to grey.
    values = torch.cat([torch.full_like(canvas.table[:1], GREY), canvas.table])
    rows = canvas.order.argsort()
    own = (1 + rows)[:, None] * values[0].numel()
    height, width = canvas.size
    row, column = _is_outside(cut[:, :2], height) * own, _is_outside(cut[:, 2:], width) * own
    first = (row[:, :, None] | column[:, None, :]).flatten(1).to(out.device, torch.int32)
    codes = canvas.planes.index_select(1, rows.to(out.device)).int().add_(first).flatten(1)
    look_up(table.expand(values.shape).gather(-1, values.long()), codes, out=out.view(-1, len(codes)).T)


def _is_outside(bounds: Tensor, side: int) -> Tensor:
    """Return which of 0..side-1 are outside the first and last bound (M, 2): (M, side) bool."""
    position = torch.arange(side)
    return (position < bounds[:, :1]) | (position >= bounds[:, 1:])
