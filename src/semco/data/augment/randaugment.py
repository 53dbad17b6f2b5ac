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
from semco.data.augment.operations import BY_KIND, OPERATIONS, Operation, Point, Slide, Spatial, Statistic, Turn

FLOATS = 1 << 16  # pixels turned into floats at a time, so that they stay in the cache
# The operations that move pixels: their codes as (5, 1, 1), and their names.
MOVES = torch.tensor([[[code]] for code, each in enumerate(OPERATIONS) if isinstance(each, Slide | Turn)])
NAMES = [each.name for each in OPERATIONS if isinstance(each, Slide | Turn)]
RANK = torch.tensor([BY_KIND.index(each) for each in OPERATIONS])
# By rank: whether the operation needs the pixels as they stand, and whether it leaves a table behind.
READS = torch.tensor([isinstance(each, Slide | Turn | Statistic | Spatial) for each in BY_KIND])
WRITES = torch.tensor([isinstance(each, Point | Statistic) for each in BY_KIND])


def first_order(draws: StrongDraws) -> Tensor:
    """The order of views (M,) in which `apply_operations` finds them on the canvas."""
    return RANK[draws.operation[0]].argsort(stable=True) if len(draws.operation) else torch.arange(len(draws.cut_y))


def apply_operations(canvas: Canvas, draws: StrongDraws) -> None:
    """Each view's k operations in order, on the canvas in place."""
    matrices = _matrices(draws, canvas.size)
    for place, rank in enumerate(RANK[draws.operation]):
        if place:  # they stand in their first order
            canvas.arrange(rank.argsort(stable=True), seen=READS[rank])
        counts = rank.bincount(minlength=len(BY_KIND)).tolist()
        _move(canvas, counts, matrices[place, canvas.order])
        _change(canvas, counts, draws.magnitude[place, canvas.order].to(canvas.planes.device))
        canvas.pending |= WRITES[rank[canvas.order]]


def _matrices(draws: StrongDraws, size: tuple[int, int]) -> Tensor:
    """Fixed-point affine coefficients (k, M, 6) of every place; made on the CPU, so that all devices round alike."""
    moves = draws.magnitude * (draws.operation == MOVES)
    return geometry.fixed_point(geometry.affine(dict(zip(NAMES, moves, strict=True)), size))


def _move(canvas: Canvas, counts: list[int], matrix: Tensor) -> None:
    """Move the pixels of views that drew a geometric operation."""
    pixels, matrix = canvas.planes.unflatten(2, canvas.size), matrix.to(canvas.planes.device)
    rows = _rows(counts, Slide)
    pixels[:, rows] = geometry.slide(pixels[:, rows], matrix[rows], fill=GREY)
    rows = _rows(counts, Turn)
    pixels, matrix = pixels[:, rows], matrix[rows]
    for part in chunks(len(matrix), canvas.planes.shape[2]):
        pixels[:, part] = geometry.resample(pixels[:, part], matrix[part], fill=GREY)


def _rows(counts: list[int], kind: type[Operation]) -> slice:
    """The rows of the views that drew an operation of this kind, when ``counts`` drew each."""
    ranks = [rank for rank, each in enumerate(BY_KIND) if type(each) is kind]
    return slice(sum(counts[: ranks[0]]), sum(counts[: ranks[-1] + 1]))


def _change(canvas: Canvas, counts: list[int], magnitude: Tensor) -> None:
    """Change the tables of views that drew a point operation, and the pixels of those that drew a spatial one."""
    parts = [
        (each, part.stop - part.start)
        for each, count in zip(BY_KIND, counts, strict=True)
        for part in chunks(count, canvas.planes.shape[2], FLOATS)
    ]
    lengths = [length for _, length in parts]
    tables, planes = canvas.table.split(lengths), canvas.planes.split(lengths, dim=1)
    amounts = magnitude.view(-1, 1, 1).split(lengths)
    for (each, _), values, pixels, amount in zip(parts, tables, planes, amounts, strict=True):
        if isinstance(each, Point):
            values.copy_(each.change(values, amount))
        elif isinstance(each, Statistic):
            values.copy_(each.change(values, amount, pixels))
        elif isinstance(each, Spatial):
            each.change(pixels, amount[..., 0], canvas.size)


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
