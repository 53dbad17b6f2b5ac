"""RandAugment (Cubuk et al. 2020, with FixMatch's operations) on a canvas of views.

Views are sorted by the operation they drew, so that each operation is applied once, to all of its views together.

NOTE: every view equals, value by value, the result of applying its operations to the image one after another. An
operation that depends on the image (autocontrast, contrast and equalize on its statistics, color and sharpness on its
pixels) gets the image as the operations before it left it, including empty areas.

Shapes: C channels, M views, n selected views, k operations per view, H height, W width.
"""

from __future__ import annotations

import torch
from torch import Tensor

from semco.data.augment import geometry
from semco.data.augment.canvas import Canvas
from semco.data.augment.draws import StrongDraws
from semco.data.augment.operations import BY_KIND, GREY, OPERATIONS, Move, Point, Spatial, Statistic

RANK = torch.tensor([BY_KIND.index(each) for each in OPERATIONS])
# By rank: whether the operation needs the current pixels, and whether it changes the table of values.
READS = torch.tensor([isinstance(each, Move | Statistic | Spatial) for each in BY_KIND])
WRITES = torch.tensor([isinstance(each, Point | Statistic) for each in BY_KIND])


def apply_operations(canvas: Canvas, draws: StrongDraws) -> None:
    """Apply the k operations of each view, in order, to the canvas in place."""
    matrices = geometry.affine_matrices(draws, canvas.size)
    for place, rank in enumerate(RANK[draws.operation]):
        canvas.sort_rows(rank.argsort(stable=True), needs_pixels=READS[rank])
        counts = rank.bincount(minlength=len(BY_KIND)).tolist()
        _apply_moves(canvas, counts, matrices[place, canvas.order])
        _apply_changes(canvas, counts, draws.magnitude[place, canvas.order].to(canvas.planes.device))
        canvas.pending |= WRITES[rank[canvas.order]]


def _apply_moves(canvas: Canvas, counts: list[int], matrix: Tensor) -> None:
    """Transform the pixels of the views that drew a geometric operation."""
    ranks = [rank for rank, each in enumerate(BY_KIND) if isinstance(each, Move)]
    rows = slice(sum(counts[: ranks[0]]), sum(counts[: ranks[-1] + 1]))
    pixels = canvas.planes.unflatten(2, canvas.size)[:, rows]
    pixels.copy_(geometry.resample(pixels, matrix[rows].to(pixels.device), fill=GREY))


def _apply_changes(canvas: Canvas, counts: list[int], magnitude: Tensor) -> None:
    """Apply the other operations: point operations change tables, spatial ones change pixels."""
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
