"""Weights over a run."""

from __future__ import annotations

import math

import pytest
import torch

from semco.methods.base import cosine_ramp, linear_ramp, ramp_over_steps, sigmoid_ramp
from semco.types import Progress


@pytest.mark.parametrize(
    ("fraction", "value"), [(0.0, math.exp(-5)), (0.1, math.exp(-1.25)), (0.15, math.exp(-0.3125)), (0.2, 1), (0.9, 1)]
)
def test_sigmoid_ramp(fraction: float, value: float) -> None:
    assert sigmoid_ramp(fraction, 0.2) == pytest.approx(value)


@pytest.mark.parametrize(("fraction", "value"), [(0.0, 0), (0.1, 0), (0.2, 0.2), (0.35, 0.5), (0.6, 1), (1.0, 1)])
def test_linear_ramp(fraction: float, value: float) -> None:
    assert linear_ramp(fraction, 0.1, 0.6) == pytest.approx(value, abs=1e-12)


@pytest.mark.parametrize(("fraction", "value"), [(0.0, 0), (0.125, 0.5 - 0.5**1.5), (0.25, 0.5), (0.5, 1), (0.9, 1)])
def test_cosine_ramp(fraction: float, value: float) -> None:
    assert cosine_ramp(fraction, 0.5) == pytest.approx(value)


def test_no_ramp() -> None:
    assert cosine_ramp(0.0, 0.0) == 1.0
    assert sigmoid_ramp(0.0, 0.0) == 1.0
    assert linear_ramp(0.0, 0.0, 0.0) == 1.0
    assert [linear_ramp(t, 0.5, 0.5) for t in (0.49, 0.5)] == [0.0, 1.0]


def test_ramp_over_steps_is_no_longer_than_the_run() -> None:
    def ramp(step: int, total: int, steps: int) -> float:
        return ramp_over_steps(Progress(step, total, 1, torch.Generator()), steps)

    assert [ramp(step, 1000, 200) for step in (0, 50, 200, 900)] == pytest.approx([0, 0.25, 1, 1])
    assert [ramp(step, 100, 200) for step in (0, 50, 99)] == pytest.approx([0, 0.5, 0.99])
    assert ramp(0, 100, 0) == 1.0
