"""The operations RandAugment chooses from, as a table: name, range of the magnitude, what to do.

Names and ranges are those of the appendix of FixMatch (Sohn et al. 2020). A magnitude is drawn uniformly from its
range; operations without one ignore it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from semco.data.augment import pixels, points

GREY = 128  # what empty areas and Cutout are filled with


@dataclass(frozen=True)
class Operation:
    """An operation that does nothing, and what every operation has."""

    name: str
    low: float = 0.0
    high: float = 0.0


@dataclass(frozen=True)
class Move(Operation):
    """Moves pixels, as `semco.data.augment.geometry.affine` says by its name."""


@dataclass(frozen=True)
class Point(Operation):
    """Changes values whatever the image: (values, magnitude) -> values."""

    change: Callable[[Tensor, Tensor], Tensor] = points.brightness


@dataclass(frozen=True)
class Statistic(Operation):
    """Changes values by what all pixels of the image are: (values, magnitude, pixels) -> values."""

    change: Callable[[Tensor, Tensor, Tensor], Tensor] = points.contrast


@dataclass(frozen=True)
class Spatial(Operation):
    """Changes pixels in place: (pixels, magnitude, size)."""

    change: Callable[[Tensor, Tensor, tuple[int, int]], None] = pixels.color


OPERATIONS: tuple[Operation, ...] = (
    Operation("identity"),
    Move("rotate", -30, 30),  # degrees
    Move("shear_x", -0.3, 0.3),  # pixels a pixel
    Move("shear_y", -0.3, 0.3),
    Move("translate_x", -0.3, 0.3),  # part of the side
    Move("translate_y", -0.3, 0.3),
    Point("brightness", 0.05, 0.95, points.brightness),  # 0 black, 1 the original
    Point("posterize", 4, 9, points.posterize),  # whole bits, 4 to 8
    Point("solarize", 0, 1, points.solarize),  # part of the range of values
    Statistic("autocontrast", change=points.autocontrast),
    Statistic("contrast", 0.05, 0.95, points.contrast),  # 0 grey, 1 the original
    Statistic("equalize", change=points.equalize),
    Spatial("color", 0.05, 0.95, pixels.color),  # 0 black and white, 1 the original
    Spatial("sharpness", 0.05, 0.95, pixels.sharpness),  # 0 smooth, 1 the original
)

# The order in which views stand by their operation: those of one kind are one slice.
KINDS = (Operation, Point, Move, Statistic, Spatial)
BY_KIND = tuple(sorted(OPERATIONS, key=lambda each: KINDS.index(type(each))))
