"""Views in the making: pixels that have not moved yet, where they will come from, and what their values will become.

A pixel is one int32 of C channel codes, 10 bits each. Codes 0..255 are channel values; a code above stands for a grey
that belongs to no image: the area of Cutout, and the area an operation leaves empty (one code for each place in the
sequence, since later operations change it and earlier ones do not). So one gather moves all channels at once, and one
table per view and channel turns codes into values, whatever lies between.

Shapes: C channels, N images, M views, n chosen views, H height, W width, P = H W, T codes, S pixels of the source.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

BITS = 10
MASK = (1 << BITS) - 1
GREY = 128  # what empty areas and Cutout are filled with
CUT = 0  # position of Cutout's pixel in the source; the pixel of the empty area of place p is at 1 + p
CHUNK = 1 << 16  # pixels rendered at a time, so that intermediate results stay in the cache


@dataclass
class Source:
    """What views are made of: the first ``used`` pixels mean something, the others are room for repainted views."""

    pixels: Tensor  # (S,) int32: one of each code above 255, then those of every image
    used: int

    def add(self, channels: Tensor) -> Tensor:
        """Pack ``channels`` (n, C, P) into the room that is left; gives the positions (n P,)."""
        first, self.used = self.used, self.used + len(channels) * channels.shape[2]
        pack(channels, out=self.pixels[first : self.used].view(len(channels), -1))
        return torch.arange(first, self.used, dtype=torch.int32, device=channels.device)


@dataclass
class Canvas:
    """``order`` says which view each row is: rows are put next to each other as operations need them."""

    source: Source
    where: Tensor  # (M, H, W) int32: position in the source of each pixel of each view
    table: Tensor  # (M, C, T) uint8: value of each code
    order: Tensor  # (M,) int64 on the CPU

    @property
    def size(self) -> tuple[int, int]:
        return self.where.shape[1], self.where.shape[2]

    def arrange(self, order: Tensor) -> None:
        """Put the rows into this ``order`` of views (M,)."""
        if torch.equal(order, self.order):
            return
        rows = self.order.argsort()[order].to(self.where.device)
        self.where, self.table = self.where.index_select(0, rows), self.table.index_select(0, rows)
        self.order = order

    def pixels(self, rows: slice, fresh: bool) -> Tensor:
        """What the views in ``rows`` look like by now: (n, C, P) uint8; ``fresh`` ones are but cropped and flipped."""
        where, table = self.where[rows].flatten(1), self.table[rows]
        packed = self.source.pixels.index_select(0, where.view(-1)).view(where.shape)
        if fresh:
            return unpack(packed, table.shape[1])
        shift = torch.arange(0, BITS * table.shape[1], BITS, dtype=torch.int32, device=packed.device)
        code = (packed[:, None, :] >> shift[:, None]).bitwise_and_(MASK)
        start = torch.arange(0, table.numel(), table.shape[2], dtype=torch.int32, device=packed.device)
        code.add_(start.view(*table.shape[:2], 1))
        return table.view(-1).index_select(0, code.view(-1)).view(code.shape)

    def repaint(self, rows: slice, pixels: Tensor) -> None:
        """Let the views in ``rows`` be ``pixels`` (n, C, P)."""
        self.where[rows].view(-1).copy_(self.source.add(pixels))
        self.table[rows] = identity_table(self.table.shape[2], pixels.device)


def new_source(images: Tensor, spare: int, room: int) -> Source:
    """``images`` (N, C, H, W) with ``spare`` codes above 255 and room for repainting ``room`` views."""
    n, channels, height, width = images.shape
    pixels = torch.empty(spare + (n + room) * height * width, dtype=torch.int32, device=images.device)
    code = torch.arange(256, 256 + spare, dtype=torch.int32, device=images.device)
    pixels[:spare] = code * sum(1 << (BITS * channel) for channel in range(channels))
    source = Source(pixels, used=spare)
    source.add(images.flatten(2))
    return source


def pack(channels: Tensor, out: Tensor) -> None:
    """Channel values (n, C, ...) as pixels (n, ...) int32."""
    out.copy_(channels[:, 0])
    for channel in range(1, channels.shape[1]):
        out.add_(channels[:, channel], alpha=1 << (BITS * channel))


def unpack(packed: Tensor, channels: int) -> Tensor:
    """Pixels (n, P) without codes above 255 as channel values (n, C, P) uint8."""
    values = torch.empty((len(packed), channels, packed.shape[1]), dtype=torch.uint8, device=packed.device)
    for channel in range(channels):
        values[:, channel] = packed >> (BITS * channel)  # storing bytes drops the higher channels
    return values


@lru_cache(maxsize=8)
def identity_table(count: int, device: torch.device) -> Tensor:
    """The table (T,) that leaves values alone and gives the codes above 255 their grey."""
    return torch.cat([torch.arange(256), torch.full((count - 256,), GREY)]).to(device, torch.uint8)


def render(source: Tensor, where: Tensor, table: Tensor, out: Tensor) -> None:
    """Views into ``out`` (M, H, W, C) from pixels (S,), map (M, H, W) and tables (M, C, T), or (1, C, T) for all."""
    step = max(1, CHUNK // where[0].numel())
    for first in range(0, len(where), step):
        part = slice(first, first + step)
        _render_part(source, where[part], table if len(table) == 1 else table[part], out[part])


def _render_part(source: Tensor, where: Tensor, table: Tensor, out: Tensor) -> None:
    """`render` of a few views into ``out`` (n, H, W, C), channel by channel."""
    packed = source.index_select(0, where.view(-1)).view(len(where), -1)
    _, channels, length = table.shape
    flat = table.view(-1)
    start = torch.arange(0, len(flat), channels * length, dtype=torch.int32, device=out.device)[:, None]
    for channel, values in enumerate(out.view(-1, channels).unbind(1)):
        code = (packed & MASK).add_(start)
        torch.index_select(flat[channel * length :], 0, code.view(-1), out=values)
        packed.bitwise_right_shift_(BITS)
