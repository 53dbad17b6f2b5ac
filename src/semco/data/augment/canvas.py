"""Views in the making: their pixels as they stand, and the tables their values have yet to go through.

Geometric operations move pixels at once. Operations on values only change a view's table; pixels go through it when an
operation must see or move them, and at last on their way to normalised floats. Everything is done for as many views at
a time as stay in the cache.

Shapes: C channels, M views, n chosen views, H height, W width, P = H W.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

GREY = 128  # what empty areas and Cutout are filled with
CHUNK = 1 << 17  # pixels moved or looked up at a time, so that positions stay in the cache


@dataclass
class Canvas:
    """``order`` says which view each row is: rows are put next to each other as operations need them."""

    planes: Tensor  # (C, M, P) uint8
    table: Tensor  # (M, C, 256) uint8: what each value will become
    pending: Tensor  # (M,) bool on the CPU: the table changes something
    order: Tensor  # (M,) int64 on the CPU
    size: tuple[int, int]

    def arrange(self, order: Tensor) -> None:
        """Put the rows into this ``order`` of views (M,)."""
        if torch.equal(order, self.order):
            return
        rows = self.order.argsort()[order]
        self.pending, self.order = self.pending[rows], order
        rows = rows.to(self.planes.device)
        self.planes, self.table = self.planes.index_select(1, rows), self.table.index_select(0, rows)

    def settle(self, chosen: Tensor) -> None:
        """Let the pixels of the ``chosen`` (M,) bool views go through their tables, which then change nothing."""
        rows = (chosen & self.pending).nonzero().view(-1).to(self.planes.device)
        start = (rows * self.table[0].numel()).int()[:, None]
        tables = channels_of(self.table, len(self.planes), 256)
        for part in chunks(len(rows), self.planes.shape[2]):
            codes = self.planes.index_select(1, rows[part]).int().add_(start[part])
            for plane, table, code in zip(self.planes, tables, codes, strict=True):
                plane.index_copy_(0, rows[part], table.index_select(0, code.view(-1)).view(code.shape))
        self.table.index_copy_(0, rows, identity_table(self.table.device).expand(len(rows), len(self.planes), 256))
        self.pending &= ~chosen


def new_canvas(planes: Tensor, order: Tensor, size: tuple[int, int]) -> Canvas:
    """Views (C, M, P) to which nothing has been done, in an ``order`` (M,)."""
    channels, views, _ = planes.shape
    table = identity_table(planes.device).repeat(views, channels, 1)
    return Canvas(planes, table, torch.zeros(views, dtype=torch.bool), order, size)


@lru_cache(maxsize=8)
def identity_table(device: torch.device) -> Tensor:
    """The table (256,) that changes nothing."""
    return torch.arange(256, dtype=torch.uint8, device=device)


def chunks(views: int, pixels: int, most: int = CHUNK) -> Iterator[slice]:
    """Slices of ``views`` rows that have no more than about ``most`` pixels, when a view has ``pixels``."""
    step = max(1, most // pixels)
    for start in range(0, views, step):
        yield slice(start, start + step)


def channels_of(source: Tensor, count: int, step: int) -> list[Tensor]:
    """The flat ``source`` as seen by each of ``count`` channels, which starts ``step`` later than the one before."""
    flat = source.view(-1)
    return [flat[channel * step :] for channel in range(count)]


def crop(images: Tensor, image: Tensor, row: Tensor, column: Tensor) -> Tensor:
    """Pixels (C, M, P) of views that show these rows (M, H) and columns (M, W) of their ``image`` (M,)."""
    _, channels, height, width = images.shape
    start = (image[:, None] * channels * height + row) * width
    start, column = (each.to(images.device, torch.int32) for each in (start, column))
    planes = images.new_empty((channels, len(row), height * width))
    sources = channels_of(images, channels, height * width)
    for part in chunks(len(row), height * width):
        where = (start[part, :, None] + column[part, None, :]).view(-1)
        for source, values in zip(sources, planes[:, part].flatten(1), strict=True):
            torch.index_select(source, 0, where, out=values)
    return planes


def render(planes: Tensor, table: Tensor, start: tuple[Tensor, Tensor], out: Tensor) -> None:
    """Pixels ``planes`` (C, M, P) through ``table`` (X, C, 256) into ``out`` (M, H, W, C).

    A pixel's part of the table starts where its row (M, H) or its column (M, W) says, 0 where neither says more;
    (M, 1) speaks for all.
    """
    row, column = (each.to(out.device, torch.int32) for each in start)
    tables = channels_of(table, len(planes), 256)
    for part in chunks(len(out), planes.shape[2]):
        first = (row[part, :, None] | column[part, None, :]).flatten(1)
        codes = planes[:, part].int().add_(first).flatten(1)
        for each, code, values in zip(tables, codes, out[part].view(-1, len(planes)).unbind(1), strict=True):
            torch.index_select(each, 0, code, out=values)
