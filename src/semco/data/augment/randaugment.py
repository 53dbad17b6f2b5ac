"""RandAugment (Cubuk et al. 2020, with FixMatch's operations).

Views are sorted by the operation they drew, so that each operation is applied once, to all of its views together.

NOTE: every view equals, value by value, the result of applying its operations to the image one after another. An
operation that depends on the image (autocontrast, contrast and equalize on its statistics, color and sharpness on its
pixels) gets the image as the operations before it left it, including empty areas.

Shapes: M views, k operations per view, H height, W width.
"""

from __future__ import annotations

import torch
from torch import Tensor

from semco.data.augment import geometry
from semco.data.augment.draws import StrongDraws
from semco.data.augment.operations import GREY, OPERATIONS, Change, Move
from semco.data.augment.packed import packed_value

Size = tuple[int, int]
# Pixels that are changed at a time.
CACHED = 1 << 18
# All moves are one slice of sorted views, because they are neighbours in the table.
MOVES = [code for code, each in enumerate(OPERATIONS) if isinstance(each, Move)]


def at_a_time(size: Size) -> int:
    """Return the number of views of a size whose pixels are in the cache of a CPU while they are changed."""
    return max(1, CACHED // (size[0] * size[1]))


def apply_operations(views: Tensor, draws: StrongDraws) -> tuple[Tensor, Tensor]:
    """Return packed views (M, H, W) after the k operations of each, in another order, and the row (M,) of each view."""
    matrices = geometry.affine_matrices(draws, (views.shape[1], views.shape[2]))
    rows = torch.arange(len(views))
    for place, operation in enumerate(draws.operation):
        order = operation.argsort(stable=True)
        views, rows = views.index_select(0, rows[order].to(views.device)), order.argsort()
        counts = operation.bincount(minlength=len(OPERATIONS)).tolist()
        _apply_moves(views, counts, matrices[place, order])
        _apply_changes(views, counts, draws.magnitude[place, order].to(views.device))
    return views, rows


def _apply_moves(views: Tensor, counts: list[int], matrix: Tensor) -> None:
    """Transform the views that drew a geometric operation, in place."""
    rows = slice(sum(counts[: MOVES[0]]), sum(counts[: MOVES[-1] + 1]))
    step = at_a_time((views.shape[1], views.shape[2]))
    for part, how in zip(views[rows].split(step), matrix[rows].split(step), strict=True):
        geometry.resample(part, how.to(views.device), fill=packed_value(GREY, views))


def _apply_changes(views: Tensor, counts: list[int], magnitude: Tensor) -> None:
    """Apply the other operations, in place."""
    size = (views.shape[1], views.shape[2])
    parts = zip(OPERATIONS, views.flatten(1).split(counts), magnitude[:, None].split(counts), strict=True)
    for each, pixels, amount in parts:
        if isinstance(each, Change) and len(pixels):
            for part, how in zip(pixels.split(at_a_time(size)), amount.split(at_a_time(size)), strict=True):
                each.change(part, how, size)
