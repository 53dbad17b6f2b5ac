"""RandAugment (Cubuk et al. 2020, with FixMatch's operations) and Cutout (DeVries & Taylor 2017) on a canvas of views.

Views are sorted by what they drew, so that each operation touches its own views only. Nothing here resamples or
looks up pixels of the whole batch: geometric operations compose maps, point operations compose tables.

NOTE: every view equals, value by value, what applying its operations one after another to the image would give. An
operation that must see the image (autocontrast, contrast, equalize: its statistics; color, sharpness: its pixels) is
given the image as it stands at that place in the sequence, empty areas and all: a gather for those views alone.

Shapes: C channels, M views, n chosen views, k operations a view, H height, W width, T codes.
"""

from __future__ import annotations

import torch
from torch import Tensor

from semco.data.augment import geometry
from semco.data.augment.canvas import CUT, GREY, Canvas
from semco.data.augment.draws import StrongDraws
from semco.data.augment.operations import OPERATIONS, Geometric, Operation, Point, Spatial, Statistic

LOOKING = (Statistic, Spatial)  # kinds of operations that must see the image


def apply_operations(canvas: Canvas, draws: StrongDraws) -> None:
    """Each view's k operations in order, on the canvas in place."""
    matrices = _matrices(draws, canvas.size)
    for place, (operation, magnitude, matrix) in enumerate(
        zip(draws.operation, draws.magnitude, matrices, strict=True)
    ):
        order = operation.argsort(stable=True)
        counts = operation.bincount(minlength=len(OPERATIONS)).tolist()
        canvas.arrange(order)
        _move(canvas, counts, matrix[order], place)
        _change(canvas, counts, magnitude[order].to(canvas.where.device), fresh=place == 0)


def repainted(draws: StrongDraws) -> int:
    """How many times `apply_operations` will repaint a view."""
    codes = [code for code, each in enumerate(OPERATIONS) if isinstance(each, Spatial)]
    return int(((draws.operation >= codes[0]) & (draws.operation <= codes[-1])).sum())


def _matrices(draws: StrongDraws, size: tuple[int, int]) -> Tensor:
    """Fixed-point affine coefficients (k, M, 6) of every place; made on the CPU, so that all devices round alike."""
    moves = {
        each.name: draws.magnitude * (draws.operation == code)
        for code, each in enumerate(OPERATIONS)
        if isinstance(each, Geometric)
    }
    return geometry.fixed_point(geometry.affine(moves, size))


def _span(counts: list[int], *kinds: type[Operation]) -> slice:
    """The rows of operations of these kinds, which stand together, given how many rows each operation has."""
    codes = [code for code, each in enumerate(OPERATIONS) if isinstance(each, kinds)]
    return slice(sum(counts[: codes[0]]), sum(counts[: codes[-1] + 1]))


def _move(canvas: Canvas, counts: list[int], matrix: Tensor, place: int) -> None:
    """Compose the maps of views that drew a geometric operation; what is left empty gets this place's code."""
    rows = _span(counts, Geometric)
    if rows.start == rows.stop:
        return
    moved = geometry.resample(canvas.where[rows], matrix[rows].to(canvas.where.device), fill=CUT + 1 + place)
    canvas.where[rows] = moved
    # Operations at earlier places changed this code with all others; it begins to mean grey here.
    canvas.table[rows, :, 257 + place] = GREY


def _change(canvas: Canvas, counts: list[int], magnitude: Tensor, fresh: bool) -> None:
    """Compose the tables of views that drew a point operation, and repaint those that drew a spatial one."""
    looking = _span(counts, *LOOKING)
    tables, amounts = canvas.table.split(counts), magnitude.view(-1, 1, 1).split(counts)
    seen = canvas.pixels(looking, fresh).split(
        [n if isinstance(each, LOOKING) else 0 for each, n in zip(OPERATIONS, counts, strict=True)]
    )
    for code, each in enumerate(OPERATIONS):
        values, amount = tables[code], amounts[code]
        if counts[code] == 0:
            continue
        if isinstance(each, Point):
            values.copy_(each.change(values, amount))
        elif isinstance(each, Statistic):
            values.copy_(each.change(values, amount, seen[code]))
        elif isinstance(each, Spatial):
            first = sum(counts[:code])
            canvas.repaint(slice(first, first + counts[code]), each.change(seen[code], amount, canvas.size))


def cut_out(canvas: Canvas, draws: StrongDraws, part: float) -> None:
    """Grey rectangles of ``part`` of each side about the drawn centres, clipped at the image's edge."""
    row, column = (
        _outside(centre[canvas.order].to(canvas.where.device), round(part * side), side)
        for centre, side in zip((draws.cut_y, draws.cut_x), canvas.size, strict=True)
    )
    canvas.where.bitwise_and_(row[:, :, None] | column[:, None, :])  # all bits or none: none is the position CUT
    canvas.table[:, :, 256 + CUT] = GREY


def _outside(centre: Tensor, length: int, side: int) -> Tensor:
    """-1 (all bits) where 0..side-1 lie outside ``length`` pixels about ``centre`` (M,), else 0: (M, side) int32."""
    position = torch.arange(side, device=centre.device) - (centre - length // 2)[:, None]
    return -((position < 0) | (position >= length)).int()
