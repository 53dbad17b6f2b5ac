"""RandAugment (Cubuk et al. 2020, with FixMatch's operations) and Cutout (DeVries & Taylor 2017) on a canvas of views.

Views are sorted by what they drew, so that each operation touches its own views only, and all of them at once.

NOTE: every view equals, value by value, what applying its operations one after another to the image would give. An
operation that must see the image (autocontrast, contrast, equalize: its statistics; color, sharpness: its pixels) is
given the image as it stands at that place in the sequence, empty areas and all.

Shapes: C channels, M views, n chosen views, k operations a view, H height, W width.
"""

from __future__ import annotations

import torch
from torch import Tensor

from semco.data.augment import geometry
from semco.data.augment.canvas import GREY, Canvas, chunks
from semco.data.augment.draws import StrongDraws
from semco.data.augment.operations import OPERATIONS, Geometric, Point, Spatial, Statistic

# By operation: whether it needs the pixels as they stand, and whether it leaves a table behind.
READS = torch.tensor([isinstance(each, Geometric | Statistic | Spatial) for each in OPERATIONS])
WRITES = torch.tensor([isinstance(each, Point | Statistic) for each in OPERATIONS])


def first_order(draws: StrongDraws) -> Tensor:
    """The order of views (M,) in which `apply_operations` wants them first."""
    return draws.operation[0].argsort(stable=True) if len(draws.operation) else torch.arange(len(draws.cut_y))


def apply_operations(canvas: Canvas, draws: StrongDraws) -> None:
    """Each view's k operations in order, on the canvas in place."""
    matrices = _matrices(draws, canvas.size)
    for place, operation in enumerate(draws.operation):
        order = operation.argsort(stable=True)
        operation = operation[order]
        canvas.arrange(order)
        canvas.settle(READS[operation])
        counts = operation.bincount(minlength=len(OPERATIONS)).tolist()
        _move(canvas, counts, matrices[place, order])
        _change(canvas, counts, draws.magnitude[place, order].to(canvas.planes.device))
        canvas.pending |= WRITES[operation]


def _matrices(draws: StrongDraws, size: tuple[int, int]) -> Tensor:
    """Fixed-point affine coefficients (k, M, 6) of every place; made on the CPU, so that all devices round alike."""
    moves = {
        each.name: draws.magnitude * (draws.operation == code)
        for code, each in enumerate(OPERATIONS)
        if isinstance(each, Geometric)
    }
    return geometry.fixed_point(geometry.affine(moves, size))


def _move(canvas: Canvas, counts: list[int], matrix: Tensor) -> None:
    """Move the pixels of views that drew a geometric operation; they stand together."""
    codes = [code for code, each in enumerate(OPERATIONS) if isinstance(each, Geometric)]
    rows = slice(sum(counts[: codes[0]]), sum(counts[: codes[-1] + 1]))
    pixels, matrix = canvas.planes[:, rows].unflatten(2, canvas.size), matrix[rows].to(canvas.planes.device)
    for part in chunks(len(matrix), canvas.planes.shape[2]):
        pixels[:, part] = geometry.resample(pixels[:, part], matrix[part], fill=GREY)


def _change(canvas: Canvas, counts: list[int], magnitude: Tensor) -> None:
    """Change the tables of views that drew a point operation, and the pixels of those that drew a spatial one."""
    tables, planes = canvas.table.split(counts), canvas.planes.split(counts, dim=1)
    magnitudes = magnitude[:, None].split(counts)
    for each, values, pixels, amount in zip(OPERATIONS, tables, planes, magnitudes, strict=True):
        if len(values) == 0:
            continue
        if isinstance(each, Point):
            values.copy_(each.change(values, amount[..., None]))
        elif isinstance(each, Statistic):
            values.copy_(each.change(values, amount[..., None], pixels))
        elif isinstance(each, Spatial):
            pixels.copy_(each.change(pixels, amount, canvas.size))


def cut_out(draws: StrongDraws, part: float, size: tuple[int, int]) -> tuple[Tensor, Tensor]:
    """The rows (M, H) and columns (M, W) outside of Cutout: rectangles of ``part`` of each side about drawn centres.

    A pixel is cut where neither its row nor its column is outside; rectangles are clipped at the image's edge.
    """
    height, width = size
    return _outside(draws.cut_y, round(part * height), height), _outside(draws.cut_x, round(part * width), width)


def _outside(centre: Tensor, length: int, side: int) -> Tensor:
    """Which of 0..side-1 lie outside ``length`` pixels about ``centre`` (M,): (M, side) bool."""
    position = torch.arange(side) - (centre - length // 2)[:, None]
    return (position < 0) | (position >= length)
