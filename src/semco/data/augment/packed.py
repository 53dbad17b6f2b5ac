"""Packed pixels: all channels of a pixel are one element, so that moving a pixel is one look-up.

Three channels are the lower three bytes of an int32; one channel is a uint8.

Shapes: C channels (1 or 3), n views, P pixels per view, B bytes per packed pixel (1 or 4).
"""

from __future__ import annotations

import torch
from torch import Tensor

PACKED = {1: torch.uint8, 3: torch.int32}  # by number of channels


def pack(planes: Tensor) -> Tensor:
    """Return channels (C, ...) as packed pixels (...); values that are not whole numbers are rounded down."""
    if len(planes) == 1:
        return planes[0].to(torch.uint8)
    red, green, blue = (plane.int() for plane in planes)
    packed: Tensor = red.add(green, alpha=1 << 8).add_(blue, alpha=1 << 16)
    return packed


def unpack(pixels: Tensor) -> list[Tensor]:
    """Return packed pixels (...) as C channels (...) uint8."""
    shifts = (0,) if pixels.dtype == torch.uint8 else (0, 8, 16)
    return [(pixels >> shift).to(torch.uint8) for shift in shifts]


def bytes_of(pixels: Tensor) -> Tensor:
    """Return the bytes (n, P * B) of packed pixels (n, P), in the same memory; the last of four is not used."""
    return pixels.view(torch.uint8)


def packed_value(value: int, pixels: Tensor) -> int:
    """Return a pixel that has the same value in all channels, packed like these ``pixels``."""
    return value if pixels.dtype == torch.uint8 else value * 0x010101
