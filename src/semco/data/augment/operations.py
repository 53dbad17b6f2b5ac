"""Table of the RandAugment operations: name, range of the magnitude, function.

Names and ranges are those in the appendix of FixMatch (Sohn et al. 2020). The magnitude is drawn uniformly from its
range; operations without a range ignore it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from semco.data.augment import changes

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
class Change(Operation):
    """Changes values of pixels in place: (packed pixels, magnitude, size)."""

    change: Callable[[Tensor, Tensor, tuple[int, int]], None] = changes.brightness


OPERATIONS: tuple[Operation, ...] = (
    Operation("identity"),
    Move("rotate", -30, 30),  # degrees
    Move("shear_x", -0.3, 0.3),  # pixels per pixel
    Move("shear_y", -0.3, 0.3),
    Move("translate_x", -0.3, 0.3),  # fraction of the side
    Move("translate_y", -0.3, 0.3),
    Change("brightness", 0.05, 0.95, changes.brightness),  # 0 black, 1 the original
    Change("posterize", 4, 9, changes.posterize),  # bits kept, rounded down: 4 to 8
    Change("solarize", 0, 1, changes.solarize),  # threshold as a fraction of the range of values
    Change("autocontrast", change=changes.autocontrast),
    Change("contrast", 0.05, 0.95, changes.contrast),  # 0 grey, 1 the original
    Change("equalize", change=changes.equalize),
    Change("color", 0.05, 0.95, changes.color),  # 0 black and white, 1 the original
    Change("sharpness", 0.05, 0.95, changes.sharpness),  # 0 smooth, 1 the original
)
