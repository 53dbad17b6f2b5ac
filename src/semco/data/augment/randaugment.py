"""RandAugment (Cubuk et al. 2020, with FixMatch's operations) on a canvas of views.

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
from semco.data.augment.canvas import Canvas
from semco.data.augment.draws import StrongDraws
from semco.data.augment.operations import BY_KIND, GREY, OPERATIONS, Move, Point, Spatial, Statistic

RANK = torch.tensor([BY_KIND.index(each) for each in OPERATIONS])
# By rank: whether the operation needs the pixels as they stand, and whether it leaves a table behind.
READS = torch.tensor([isinstance(each, Move | Statistic | Spatial) for each in BY_KIND])
WRITES = torch.tensor([isinstance(each, Point | Statistic) for each in BY_KIND])


def apply_operations(canvas: Canvas, draws: StrongDraws) -> None:
    """Each view's k operations in order, on the canvas in place."""
    matrices = geometry.matrices(draws, canvas.size)
    for place, rank in enumerate(RANK[draws.operation]):
        canvas.arrange(rank.argsort(stable=True), seen=READS[rank])
        counts = rank.bincount(minlength=len(BY_KIND)).tolist()
        _move(canvas, counts, matrices[place, canvas.order])
        _change(canvas, counts, draws.magnitude[place, canvas.order].to(canvas.planes.device))
        canvas.pending |= WRITES[rank[canvas.order]]


def _move(canvas: Canvas, counts: list[int], matrix: Tensor) -> None:
    """Move the pixels of views that drew a geometric operation."""
    ranks = [rank for rank, each in enumerate(BY_KIND) if isinstance(each, Move)]
    rows = slice(sum(counts[: ranks[0]]), sum(counts[: ranks[-1] + 1]))
    pixels = canvas.planes.unflatten(2, canvas.size)[:, rows]
    pixels.copy_(geometry.resample(pixels, matrix[rows].to(pixels.device), fill=GREY))


def _change(canvas: Canvas, counts: list[int], magnitude: Tensor) -> None:
    """Change the tables of views that drew a point operation, and the pixels of those that drew a spatial one."""
    tables, planes = canvas.table.split(counts), canvas.planes.split(counts, dim=1)
    amounts = magnitude.view(-1, 1, 1).split(counts)
    for each, count, values, pixels, amount in zip(BY_KIND, counts, tables, planes, amounts, strict=True):
        if not count:
            continue
        if isinstance(each, Point):
            values.copy_(each.change(values, amount))
        elif isinstance(each, Statistic):
            values.copy_(each.change(values, amount, pixels))
        elif isinstance(each, Spatial):
            each.change(pixels, amount[..., 0], canvas.size)
