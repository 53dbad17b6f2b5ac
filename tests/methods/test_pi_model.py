"""The Pi-model by hand, with gradient through both passes."""

from __future__ import annotations

import math

import pytest
import torch
from scripted import ScriptedForward, at, log_table, make_batch, make_task

from semco.methods.pi_model import PiModel, PiModelConfig


def test_by_hand() -> None:
    one, two = log_table([[0.2, 0.3, 0.5]]), log_table([[0.4, 0.4, 0.2]])
    method = PiModel(PiModelConfig(), make_task(3, labelled=1, pool=12))
    result = method.compute(make_batch([0], log_table([[0.5, 0.25, 0.25]]), [one, two]), ScriptedForward(), at(50))
    assert float(result.losses["supervised"]) == pytest.approx(math.log(2))
    assert float(result.losses["consistency"]) == pytest.approx((0.2**2 + 0.1**2 + 0.3**2) / 3)
    assert result.weights["consistency"] == pytest.approx(100.0)  # the ramp is over
    assert result.pseudo_labels["one_hot"].confidence.tolist() == pytest.approx([0.35])


def test_weight_during_the_ramp() -> None:
    method = PiModel(PiModelConfig(lambda_u=8.0, ramp_up=0.5), make_task(2))
    example = make_batch([0], torch.zeros(1, 2), [torch.zeros(1, 2)] * 2)
    weights = [method.compute(example, ScriptedForward(), at(step)).weights["consistency"] for step in (0, 25, 50, 99)]
    assert weights == pytest.approx([8 * math.exp(-5), 8 * math.exp(-1.25), 8, 8])


def test_both_passes_learn() -> None:
    """The loss is symmetric, so opposite gradients reach the two views of two classes."""
    one = log_table([[0.3, 0.7]]).requires_grad_()
    two = log_table([[0.7, 0.3]]).requires_grad_()
    example = make_batch([0], torch.zeros(1, 2), [one, two])
    PiModel(PiModelConfig(), make_task(2)).compute(example, ScriptedForward(), at(0)).losses["consistency"].backward()
    assert one.grad is not None
    assert two.grad is not None
    # d/dz_1 of mean (p - q)^2 = (p_1 - q_1) * 2 * p_1 p_2, as both classes differ by the same.
    assert one.grad[0, 0].item() == pytest.approx(-0.4 * 2 * 0.21)
    torch.testing.assert_close(one.grad, -two.grad)
