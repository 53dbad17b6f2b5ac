"""Views in the making: their pixels as they stand, and the tables their values have yet to go through.

Geometric operations move pixels at once. Operations on values only change a view's table; pixels go through it when an
operation must see or move them, and at last on their way to normalised floats.

Shapes: C channels, M views, n chosen views, H height, W width, P = H W.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor


@dataclass
class Canvas:
    """``order`` says which view each row is: rows are put next to each other as operations need them."""

    planes: Tensor  # (C, M, P) uint8
    table: Tensor  # (M, C, 256) uint8: what each value will become
    pending: Tensor  # (M,) bool on the CPU: the table changes something
    order: Tensor  # (M,) int64 on the CPU
    size: tuple[int, int]

    def arrange(self, order: Tensor, seen: Tensor) -> None:
        """Put the rows into this ``order`` of views (M,); those to be ``seen`` (M,) go through their tables."""
        rows = self.order.argsort()[order]
        due = seen[order] & self.pending[rows]
        done = self._through_tables(rows[due])
        self.pending, self.order = self.pending[rows] & ~due, order
        self.table = torch.cat([self.table, identity_table(self.table.device).expand(1, len(done), 256)])
        self.table = self.table.index_select(0, rows.where(~due, len(rows)).to(self.table.device))
        rows[due] = torch.arange(len(rows), len(rows) + done.shape[1])
        self.planes = torch.cat([self.planes, done], dim=1).index_select(1, rows.to(done.device))

    def _through_tables(self, rows: Tensor) -> Tensor:
        """The pixels (C, n, P) of these rows (n,) as their tables say they will be."""
        rows = rows.to(self.planes.device)
        done = self.planes.new_empty((len(self.planes), len(rows), self.planes.shape[2]))
        start = (rows * self.table[0].numel()).int()[:, None]
        codes = self.planes.index_select(1, rows).int().add_(start).flatten(1)
        look_up(self.table, codes, out=done.flatten(1))
        return done


def new_canvas(images: Tensor, image: Tensor, shown: tuple[Tensor, Tensor]) -> Canvas:
    """Views that show these rows (M, H) and columns (M, W) of their ``image`` (M,)."""
    _, channels, height, width = images.shape
    start = (image[:, None] * (channels * height) + shown[0]) * width
    where = (start[:, :, None] + shown[1][:, None]).view(-1).to(images.device)
    planes = images.new_empty((channels, len(image), height * width))
    for source, values in zip(channels_of(images, channels, height * width), planes.flatten(1), strict=True):
        torch.index_select(source, 0, where, out=values)
    table = identity_table(images.device).repeat(len(image), channels, 1)
    pending = torch.zeros(len(image), dtype=torch.bool)
    return Canvas(planes, table, pending, torch.arange(len(image)), (height, width))


@lru_cache(maxsize=8)
def identity_table(device: torch.device) -> Tensor:
    """The table (256,) that changes nothing."""
    return torch.arange(256, dtype=torch.uint8, device=device)


def channels_of(source: Tensor, count: int, step: int) -> list[Tensor]:
    """The flat ``source`` as seen by each of ``count`` channels, which starts ``step`` later than the one before."""
    flat = source.view(-1)
    return [flat[channel * step :] for channel in range(count)]


def look_up(table: Tensor, codes: Tensor, out: Tensor) -> None:
    """What ``table`` (X, C, 256) holds at ``codes`` (C, n), which count from where each channel starts, to (C, n)."""
    for each, code, values in zip(channels_of(table, len(codes), 256), codes, out, strict=True):
        torch.index_select(each, 0, code, out=values)
