"""Decode JPEG 2000 files at 1/2, 1/4, ... of their size; the header says how often it can be halved."""

from __future__ import annotations

import struct
from typing import Any, BinaryIO

START, CODING, TILE = b"\xff\x4f\xff\x51", 0x52, 0x90  # of the codestream, coding style, first tile
HEADER = 1 << 16  # bytes in which the codestream begins
MOST = 32  # halvings that the format knows


def num_halvings(stream: BinaryIO) -> int:
    """Return how often the size of an image can be halved while it is decoded; 0 if the header does not say."""
    stream.seek(0)
    header = stream.read(HEADER)
    stream.seek(0)
    at = header.find(START) + 2
    if at < 2:
        return 0
    most = _halvings_of_tiles(header[at:])
    while at + 10 <= len(header) and header[at] == 0xFF and header[at + 1] != TILE:
        if header[at + 1] == CODING:
            return min(most, header[at + 9])
        at += 2 + int.from_bytes(header[at + 2 : at + 4], "big")
    return 0


def _halvings_of_tiles(size: bytes) -> int:
    """Return how often tiles can be halved without rounding, given the SIZ segment: Pillow fails at rounded tiles."""
    if len(size) < 38:
        return 0
    right, bottom, left, top, width, height, *offsets = struct.unpack(">8I", size[6:38])
    if left or top or any(offsets):
        return 0
    if width >= right and height >= bottom:  # one tile
        return MOST
    return max(0, min(int(side & -side).bit_length() - 1 for side in (width, height)))


def halve_while_decoding(file: Any, halvings: int) -> int:
    """Let Pillow decode an image at a size that is halved so many times; return the number of pixels then.

    The format rounds sizes up, Pillow to the nearest number, and then Pillow fails. So it gets a size that needs no
    rounding.
    """
    width, height = (-(-side >> halvings) for side in file.size)
    file.reduce = halvings
    file._size = (width << halvings, height << halvings)
    return int(width * height)
