"""Geometric operations: crop, flip and affine transforms with nearest-neighbour sampling.

Every pixel is read from one whole pixel, so the results equal those of Pillow exactly, also after several operations.

Shapes: N images, M views, n selected views, k operations per view, H height, W width.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from semco.data.augment.draws import StrongDraws, WeakDraws
from semco.data.augment.operations import OPERATIONS, Move

FIXED = 16  # binary digits after the point in Pillow's nearest-neighbour affine transform
Size = tuple[int, int]
# The affine operations: their positions in OPERATIONS as (5, 1, 1), and their names.
MOVES = torch.tensor([[[code]] for code, each in enumerate(OPERATIONS) if isinstance(each, Move)])
NAMES = [each.name for each in OPERATIONS if isinstance(each, Move)]


def crop_and_flip(draws: WeakDraws, size: Size) -> Tensor:
    """Return the pixel of its image that each pixel of a cropped and flipped view is: (M H W,) int32.

    Image i is in view i; all their pixels are counted. The padding reflects the image without repeating its edge.
    """
    height, width = size
    x, y = torch.arange(width, dtype=torch.int32), torch.arange(height, dtype=torch.int32)
    image = torch.arange(len(draws.top), dtype=torch.int32)[:, None]
    flipped = x + draws.flip[:, None] * (width - 1 - 2 * x)
    rows = reflect(y + draws.top[:, None].int(), height).add_(image, alpha=height).mul_(width)
    columns = reflect(flipped + draws.left[:, None].int(), width)
    return (rows[:, :, None] + columns[:, None, :]).view(-1)


def reflect(position: Tensor, side: int) -> Tensor:
    """Reflect positions outside 0..side-1 at the edge pixels; they may be at most ``side - 1`` beyond either edge."""
    return (side - 1) - ((side - 1) - position.abs()).abs()


def affine_matrices(draws: StrongDraws, size: Size) -> Tensor:
    """Return fixed-point affine coefficients (k, M, 6) of all operations.

    They are computed on the CPU, so that rounding is the same for all devices.
    """
    moves = draws.magnitude * (draws.operation == MOVES)
    return to_fixed_point(affine_coefficients(dict(zip(NAMES, moves, strict=True)), size))


def affine_coefficients(moves: dict[str, Tensor], size: Size) -> Tensor:
    """Return Pillow's affine coefficients (..., 6) float64; at most one magnitude in ``moves`` is not 0.

    Rotation is counter-clockwise in degrees about the centre, like ``Image.rotate``; shears are in pixels per pixel;
    translations are fractions of the side, rounded to whole pixels.
    """
    height, width = size
    angle = moves["rotate"] * (-math.pi / 180)
    cos, sin = angle.cos(), angle.sin()
    c = width / 2 - cos * (width / 2) - sin * (height / 2) + (moves["translate_x"] * width).round()
    f = height / 2 + sin * (width / 2) - cos * (height / 2) + (moves["translate_y"] * height).round()
    return torch.stack([cos, moves["shear_x"] + sin, c, moves["shear_y"] - sin, cos, f], dim=-1)


def to_fixed_point(matrix: Tensor) -> Tensor:
    """Convert affine coefficients (..., 6) to Pillow's fixed-point form (..., 6) int32, between pixel centres."""
    a, b, c, d, e, f = matrix.unbind(-1)
    centred = torch.stack([a, b, c + (a + b) * 0.5, d, e, f + (d + e) * 0.5], dim=-1)
    return (centred * (1 << FIXED) + 0.5).floor().int()


def resample(pixels: Tensor, matrix: Tensor, fill: int) -> None:
    """Transform ``pixels`` (n, H, W) in place by a fixed-point ``matrix`` (n, 6); pixels from outside are ``fill``.

    Output pixel (x, y) reads input pixel (a x + b y + c, d x + e y + f), in the same arithmetic as Pillow, so that it
    reads the same pixel.
    """
    n, height, width = pixels.shape
    # With a frame of `fill` pixels around the image, clamping replaces the check of bounds.
    framed = F.pad(pixels, (1, 1, 1, 1), value=fill)
    start = torch.arange(0, framed.numel(), framed.stride(0), dtype=torch.int32, device=pixels.device)[:n]
    column, row = _framed_coordinates(matrix, (height, width))
    column.clamp_(0, width + 1).add_(start.view(n, 1, 1))
    column.add_(row.clamp_(0, height + 1), alpha=width + 2)
    torch.index_select(framed.view(-1), 0, column.view(-1), out=pixels.view(-1))


def _framed_coordinates(matrix: Tensor, size: Size) -> tuple[Tensor, Tensor]:
    """Return the column and row (n, H, W) that each output pixel reads, in an image with a frame of one pixel."""
    y, x = (torch.arange(side, dtype=torch.int32, device=matrix.device) for side in size)
    by_x, by_y, offset = matrix.view(-1, 2, 3).permute(2, 1, 0).contiguous().unsqueeze(-1)  # (2, n, 1) each
    along_y = (by_y * y).add_(offset).add_(1 << FIXED).unsqueeze(-1)
    column, row = (along_y + (by_x * x).unsqueeze(-2)).bitwise_right_shift_(FIXED)
    return column, row
