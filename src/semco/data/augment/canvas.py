"""The state of views while operations are applied: their pixels, and a table of value changes not yet applied to them.

Geometric operations move the pixels immediately. Operations on values only change a view's table; the pixels are mapped
through it when the next operation needs their current values, and at the end, together with normalisation.

Shapes: C channels, M views, n selected views, H height, W width, P = H W pixels.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor


@dataclass
class Canvas:
    """Pixels and tables of M views, in rows that are sorted by operation; ``order`` is the view in each row."""

    planes: Tensor  # (C, M, P) uint8
    table: Tensor  # (M, C, 256) uint8: the new value of each value
    pending: Tensor  # (M,) bool on the CPU: the table is not the identity
    order: Tensor  # (M,) int64 on the CPU
    size: tuple[int, int]  # H, W

    def sort_rows(self, order: Tensor, needs_pixels: Tensor) -> None:
        """Sort the rows into this ``order`` of views (M,); apply the tables of the views in ``needs_pixels`` (M,)."""
        rows = self.order.argsort()[order]
        due = needs_pixels[order] & self.pending[rows]
        done = self._apply_tables(rows[due])
        self.pending, self.order = self.pending[rows] & ~due, order
        self.table = torch.cat([self.table, identity_table(self.table.device).expand(1, len(done), 256)])
        self.table = self.table.index_select(0, rows.where(~due, len(rows)).to(self.table.device))
        rows[due] = torch.arange(len(rows), len(rows) + done.shape[1])
        self.planes = torch.cat([self.planes, done], dim=1).index_select(1, rows.to(done.device))

    def _apply_tables(self, rows: Tensor) -> Tensor:
        """Return the pixels (C, n, P) of these rows (n,), mapped through their tables."""
        rows = rows.to(self.planes.device)
        done = self.planes.new_empty((len(self.planes), len(rows), self.planes.shape[2]))
        start = (rows * self.table[0].numel()).int()[:, None]
        codes = self.planes.index_select(1, rows).int().add_(start).flatten(1)
        look_up(self.table, codes, out=done.flatten(1))
        return done


def new_canvas(images: Tensor, image: Tensor, crop: tuple[Tensor, Tensor]) -> Canvas:
    """Return a canvas of views; each shows the rows (M, H) and columns (M, W) in ``crop`` of its ``image`` (M,)."""
    _, channels, height, width = images.shape
    start = (image[:, None] * (channels * height) + crop[0]) * width
    index = (start[:, :, None] + crop[1][:, None]).view(-1).to(images.device)
    planes = images.new_empty((channels, len(image), height * width))
    for source, values in zip(channels_of(images, channels, height * width), planes.flatten(1), strict=True):
        torch.index_select(source, 0, index, out=values)
    table = identity_table(images.device).repeat(len(image), channels, 1)
    pending = torch.zeros(len(image), dtype=torch.bool)
    return Canvas(planes, table, pending, torch.arange(len(image)), (height, width))


@lru_cache(maxsize=8)
def identity_table(device: torch.device) -> Tensor:
    """Return the table (256,) that maps each value to itself."""
    return torch.arange(256, dtype=torch.uint8, device=device)


def channels_of(source: Tensor, count: int, step: int) -> list[Tensor]:
    """Return the flat ``source`` from the start of each of ``count`` channels, which are ``step`` elements apart."""
    flat = source.view(-1)
    return [flat[channel * step :] for channel in range(count)]


def look_up(table: Tensor, codes: Tensor, out: Tensor) -> None:
    """Write the elements of ``table`` (X, C, 256) at ``codes`` (C, n), from the start of each channel, to ``out``."""
    for each, code, values in zip(channels_of(table, len(codes), 256), codes, out, strict=True):
        torch.index_select(each, 0, code, out=values)
