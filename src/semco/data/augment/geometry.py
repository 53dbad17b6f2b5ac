"""Geometric operations as index maps: where each pixel of a view comes from.

A map is a (n, H, W) int32 tensor of positions in a flat list of pixels. Maps are composed, never images, so however
many geometric operations a view goes through, its pixels are resampled once. Composition is of whole-pixel maps, in
order, which gives what resampling the image after each operation would give, to the pixel.

Shapes: n views, H height, W width.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F

FIXED = 16  # binary digits after the point in Pillow's nearest-neighbour affine transform
Size = tuple[int, int]


def crop_flip(image: Tensor, top: Tensor, left: Tensor, flip: Tensor, size: Size, first: int = 0) -> Tensor:
    """The map of crop and flip for views of ``image`` (n,), an index into images of ``size`` stored from ``first`` on.

    ``top`` and ``left`` (n,) say how far the crop starts from the image's own corner, negative in the padding, which
    mirrors the image without repeating its edge. ``flip`` (n,) is boolean.
    """
    height, width = size
    x = torch.arange(width, device=image.device)
    column = mirror(torch.where(flip[:, None], width - 1 - x, x).add_(left[:, None]), width)
    row = mirror(torch.arange(height, device=image.device) + top[:, None], height)
    start = row.add_((image * height)[:, None]).mul_(width).add_(first)
    return start.int()[:, :, None] + column.int()[:, None, :]


def mirror(position: Tensor, side: int) -> Tensor:
    """Positions outside 0..side-1 reflected at the edge pixels; good for less than one side beyond either edge."""
    return (side - 1) - ((side - 1) - position.abs()).abs()


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


def resample(where: Tensor, matrix: Tensor, fill: int) -> Tensor:
    """The map ``where`` (n, H, W) seen through the fixed-point affine ``matrix`` (n, 6); ``fill`` is what lies outside.

    Output pixel (x, y) reads input pixel (a x + b y + c, d x + e y + f) in the arithmetic of Pillow, so that the chosen
    pixel is the same one.
    """
    n, height, width = where.shape
    # One pixel of `fill` around the map makes the bounds check a clamp.
    framed = F.pad(where, (1, 1, 1, 1), value=fill)
    start = torch.arange(0, framed.numel(), framed.stride(0), dtype=torch.int32, device=where.device)
    column, row = _framed_coordinates(matrix, (height, width))
    column.clamp_(0, width + 1).add_(start.view(n, 1, 1))
    position = row.clamp_(0, height + 1).mul_(width + 2).add_(column)
    return framed.view(-1).index_select(0, position.view(-1)).view(n, height, width)


def _framed_coordinates(matrix: Tensor, size: Size) -> tuple[Tensor, Tensor]:
    """The whole x and y (n, H, W) that output pixels read, counted from a frame of one pixel around the image."""
    y, x = (torch.arange(side, dtype=torch.int32, device=matrix.device) for side in size)
    by_x, by_y, offset = matrix.view(-1, 2, 3).permute(2, 1, 0).contiguous().unsqueeze(-1)  # (2, n, 1) each
    along_y = (by_y * y).add_(offset).add_(1 << FIXED).unsqueeze(-1)
    column, row = (along_y + (by_x * x).unsqueeze(-2)).bitwise_right_shift_(FIXED)
    return column, row
