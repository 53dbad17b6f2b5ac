"""Table of the RandAugment operations: name, range of the magnitude, function.

Names and ranges are those in the appendix of FixMatch (Sohn et al. 2020). The magnitude is drawn uniformly from its
range; operations without a range ignore it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from semco.data.augment import pixels, points

GREY = 128  # value of empty areas and of Cutout


@dataclass(frozen=True)
class Operation:
    """Base of all operations; by itself it does nothing (identity)."""

    name: str
    low: float = 0.0
    high: float = 0.0


@dataclass(frozen=True)
class Move(Operation):
    """An affine transform; `semco.data.augment.geometry.affine_coefficients` defines it by its name."""


@dataclass(frozen=True)
class Point(Operation):
    """Changes each value independently of the image: (values, magnitude) -> values."""

    change: Callable[[Tensor, Tensor], Tensor] = points.brightness


@dataclass(frozen=True)
class Statistic(Operation):
    """Changes each value using statistics of the image: (values, magnitude, pixels) -> values."""

    change: Callable[[Tensor, Tensor, Tensor], Tensor] = points.contrast


@dataclass(frozen=True)
class Spatial(Operation):
    """Changes pixels in place, using other channels or neighbours: (pixels, magnitude, size)."""

    change: Callable[[Tensor, Tensor, tuple[int, int]], None] = pixels.color


OPERATIONS: tuple[Operation, ...] = (
    Operation("identity"),
    Move("rotate", -30, 30),  # degrees
    Move("shear_x", -0.3, 0.3),  # pixels per pixel
    Move("shear_y", -0.3, 0.3),
    Move("translate_x", -0.3, 0.3),  # fraction of the side
    Move("translate_y", -0.3, 0.3),
    Point("brightness", 0.05, 0.95, points.brightness),  # 0 black, 1 the original
    Point("posterize", 4, 9, points.posterize),  # bits kept, rounded down: 4 to 8
    Point("solarize", 0, 1, points.solarize),  # threshold as a fraction of the range of values
    Statistic("autocontrast", change=points.autocontrast),
    Statistic("contrast", 0.05, 0.95, points.contrast),  # 0 grey, 1 the original
    Statistic("equalize", change=points.equalize),
    Spatial("color", 0.05, 0.95, pixels.color),  # 0 black and white, 1 the original
    Spatial("sharpness", 0.05, 0.95, pixels.sharpness),  # 0 smooth, 1 the original
)

# Operations sorted by kind, so that the views of each kind are one slice.
KINDS = (Operation, Point, Move, Statistic, Spatial)
BY_KIND = tuple(sorted(OPERATIONS, key=lambda each: KINDS.index(type(each))))
