"""The accuracy that a run shows everywhere: the number of correctly classified photos and a 95 % interval."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

Z = 1.959964  # of a 95 % interval
Kind = Literal["test", "validation", "cross_validation"]
Right = NDArray[np.bool_]
PHOTOS: dict[Kind, str] = {
    "test": "test images",
    "validation": "validation images",
    "cross_validation": "labelled images, each predicted without its label",
}


def percent(value: float) -> str:
    """Return a fraction as text."""
    return f"{100 * value:.1f} %"


def wilson_interval(right: int, total: int) -> tuple[float, float]:
    """Return the 95 % interval of Wilson (1927) for the probability that a photo is classified correctly."""
    part = right / total
    centre = part + Z * Z / (2 * total)
    half = Z * math.sqrt(part * (1 - part) / total + Z * Z / (4 * total * total))
    scale = 1 + Z * Z / total
    return max(0.0, (centre - half) / scale), min(1.0, (centre + half) / scale)


class Accuracy(BaseModel):
    """Accuracy of a model on photos whose labels it was not trained on, with a 95 % interval."""

    model_config = ConfigDict(frozen=True, use_attribute_docstrings=True)

    right: int
    """Number of correctly classified photos."""
    total: int
    """Number of photos."""
    low: float
    """Lower end of the 95 % interval (Wilson)."""
    high: float
    """Upper end of it."""
    kind: Kind
    """Which photos: test images, validation images, or labelled images by cross-validation."""

    @classmethod
    def of(cls, right: int, total: int, kind: Kind) -> Accuracy:
        low, high = wilson_interval(right, total)
        return cls(right=right, total=total, low=low, high=high, kind=kind)

    @classmethod
    def count(cls, right: Right, kind: Kind) -> Accuracy | None:
        """Return the accuracy of predictions, given which of them (N,) are correct; None if there are none."""
        return cls.of(int(right.sum()), len(right), kind) if len(right) else None

    @property
    def value(self) -> float:
        return self.right / self.total

    @property
    def interval(self) -> str:
        return f"95 % interval {100 * self.low:.0f} to {100 * self.high:.0f} %"

    @property
    def photos(self) -> str:
        """The photos that it was measured on."""
        return f"{self.total:,} {PHOTOS[self.kind]}"

    def describe(self) -> str:
        """Return the accuracy with its interval and its photos in one phrase."""
        return f"right for {percent(self.value)} of {self.photos} ({self.interval})"


class Difference(BaseModel):
    """Difference in accuracy between two models on the same photos, with a 95 % interval."""

    model_config = ConfigDict(frozen=True, use_attribute_docstrings=True)

    value: float
    """Difference of the accuracies."""
    low: float
    """Lower end of the 95 % interval (Agresti and Min 2005)."""
    high: float
    """Upper end of it."""

    @classmethod
    def between(cls, model: Right, other: Right) -> Difference:
        """Return the difference of paired predictions, given which of them (N,) are correct.

        The interval adds half a photo to each cell of the 2 x 2 table, which keeps its coverage near 95 % for few
        photos.
        """
        total, gained, lost = len(model) + 2, (model & ~other).sum() + 0.5, (other & ~model).sum() + 0.5
        centre = float(gained - lost) / total
        half = Z * math.sqrt(float(gained + lost) - float(gained - lost) ** 2 / total) / total
        value = float(model.mean() - other.mean())
        return cls(value=value, low=max(-1.0, centre - half), high=min(1.0, centre + half))

    @property
    def is_tied(self) -> bool:
        """Whether the interval includes 0."""
        return self.low <= 0 <= self.high

    def describe(self) -> str:
        """Return the difference with its interval in one phrase."""
        between = f"95 % interval {100 * self.low:+.0f} to {100 * self.high:+.0f}"
        return f"{'tied, ' if self.is_tied else ''}{100 * self.value:+.1f} points, {between}"
