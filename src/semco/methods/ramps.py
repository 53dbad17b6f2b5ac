"""Weights that grow during a run, as functions of the finished fraction, so that short runs ramp up too."""

from __future__ import annotations

import math

from semco.types import Progress


def sigmoid_ramp(fraction: float, length: float) -> float:
    """Return exp(-5 (1 - t)^2), t from 0 to 1 over the first ``length`` of the run, then 1 (Laine & Aila 2017)."""
    done = 1.0 if length == 0 else min(1.0, fraction / length)
    return math.exp(-5.0 * (1.0 - done) ** 2)


def linear_ramp(fraction: float, start: float, end: float) -> float:
    """Return 0 up to ``start``, then linearly up to 1 at ``end``; a step function if both are equal."""
    if fraction >= end:
        return 1.0
    return max(0.0, (fraction - start) / (end - start)) if end > start else 0.0


def cosine_ramp(fraction: float, length: float) -> float:
    """Return 1/2 - cos(pi t) / 2, t from 0 to 1 over the first ``length`` of the run, then 1 (AdaMatch)."""
    done = 1.0 if length == 0 else min(1.0, fraction / length)
    return 0.5 - 0.5 * math.cos(math.pi * done)


def ramp_over_steps(progress: Progress, steps: int) -> float:
    """Return a linear ramp from 0 to 1 at step ``steps``, or at the end of the run if that comes first."""
    return min(1.0, progress.step / max(1, min(steps, progress.total_steps))) if steps else 1.0
