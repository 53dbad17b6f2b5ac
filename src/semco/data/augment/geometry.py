"""Geometric operations: where each pixel of a view comes from, and moving it.

Positions are whole pixels, so moving pixels by one operation after another loses nothing but what leaves the image, and
gives Pillow's nearest-neighbour results to the pixel.

Shapes: C channels, n views, H height, W width.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from semco.data.augment.canvas import channels_of
from semco.data.augment.draws import StrongDraws, WeakDraws
from semco.data.augment.operations import OPERATIONS, Move

FIXED = 16  # binary digits after the point in Pillow's nearest-neighbour affine transform
Size = tuple[int, int]
# The operations that move pixels: their codes as (5, 1, 1), and their names.
MOVES = torch.tensor([[[code]] for code, each in enumerate(OPERATIONS) if isinstance(each, Move)])
NAMES = [each.name for each in OPERATIONS if isinstance(each, Move)]


def crop_flip(draws: WeakDraws, size: Size) -> tuple[Tensor, Tensor]:
    """The row (M, H) and column (M, W) of its image that each row and column of a cropped and flipped view shows.

    The padding mirrors the image without repeating its edge.
    """
    height, width = size
    x, y = torch.arange(width), torch.arange(height)
    flipped = x + draws.flip[:, None] * (width - 1 - 2 * x)
    return mirror(y + draws.top[:, None], height), mirror(flipped + draws.left[:, None], width)


def mirror(position: Tensor, side: int) -> Tensor:
    """Positions outside 0..side-1 reflected at the edge pixels; good for less than one side beyond either edge."""
    return (side - 1) - ((side - 1) - position.abs()).abs()


def matrices(draws: StrongDraws, size: Size) -> Tensor:
    """Fixed-point affine coefficients (k, M, 6) of every place; made on the CPU, so that all devices round alike."""
    moves = draws.magnitude * (draws.operation == MOVES)
    return fixed_point(affine(dict(zip(NAMES, moves, strict=True)), size))


def affine(moves: dict[str, Tensor], size: Size) -> Tensor:
    """Pillow's affine coefficients (..., 6) float64 of views that make at most one of the ``moves``, 0 for the others.

    Rotation is counter-clockwise in degrees about the centre, as ``Image.rotate``; shears are in pixels a pixel;
    translations are parts of the side, in whole pixels.
    """
    height, width = size
    angle = moves["rotate"] * (-math.pi / 180)
    cos, sin = angle.cos(), angle.sin()
    c = width / 2 - cos * (width / 2) - sin * (height / 2) + (moves["translate_x"] * width).round()
    f = height / 2 + sin * (width / 2) - cos * (height / 2) + (moves["translate_y"] * height).round()
    return torch.stack([cos, moves["shear_x"] + sin, c, moves["shear_y"] - sin, cos, f], dim=-1)


def fixed_point(matrix: Tensor) -> Tensor:
    """Pillow's fixed-point form (..., 6) int32 of affine coefficients (..., 6), from pixel centre to pixel centre."""
    a, b, c, d, e, f = matrix.unbind(-1)
    centred = torch.stack([a, b, c + (a + b) * 0.5, d, e, f + (d + e) * 0.5], dim=-1)
    return (centred * (1 << FIXED) + 0.5).floor().int()


def resample(pixels: Tensor, matrix: Tensor, fill: int) -> Tensor:
    """``pixels`` (C, n, H, W) seen through the fixed-point affine ``matrix`` (n, 6); ``fill`` is what lies outside.

    Output pixel (x, y) reads input pixel (a x + b y + c, d x + e y + f) in the arithmetic of Pillow, so that the chosen
    pixel is the same one.
    """
    channels, n, height, width = pixels.shape
    # One pixel of `fill` around the image makes the bounds check a clamp.
    framed = F.pad(pixels, (1, 1, 1, 1), value=fill)
    start = torch.arange(0, n * framed.stride(1), framed.stride(1), dtype=torch.int32, device=pixels.device)
    column, row = _framed_coordinates(matrix, (height, width))
    column.clamp_(0, width + 1).add_(start.view(n, 1, 1))
    column.add_(row.clamp_(0, height + 1), alpha=width + 2)
    moved = torch.empty_like(pixels)
    sources = channels_of(framed, channels, framed.stride(0))
    for source, values in zip(sources, moved.view(channels, -1), strict=True):
        torch.index_select(source, 0, column.view(-1), out=values)
    return moved


def _framed_coordinates(matrix: Tensor, size: Size) -> tuple[Tensor, Tensor]:
    """The whole x and y (n, H, W) that output pixels read, counted from a frame of one pixel around the image."""
    y, x = (torch.arange(side, dtype=torch.int32, device=matrix.device) for side in size)
    by_x, by_y, offset = matrix.view(-1, 2, 3).permute(2, 1, 0).contiguous().unsqueeze(-1)  # (2, n, 1) each
    along_y = (by_y * y).add_(offset).add_(1 << FIXED).unsqueeze(-1)
    column, row = (along_y + (by_x * x).unsqueeze(-2)).bitwise_right_shift_(FIXED)
    return column, row
