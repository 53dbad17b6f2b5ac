"""Mean Teacher by hand, and whom its gradient reaches."""

from __future__ import annotations

import math

import pytest
import torch
from scripted import ScriptedForward, at, log_table, make_batch, make_task

from semco.methods.mean_teacher import MeanTeacher, MeanTeacherConfig


def test_by_hand() -> None:
    labelled = log_table([[0.25, 0.75]])
    first = log_table([[0.5, 0.5], [0.9, 0.1]])
    second = log_table([[0.8, 0.2], [0.3, 0.7]])
    method = MeanTeacher(MeanTeacherConfig(), make_task(2, labelled=2, pool=40))
    teacher = ScriptedForward(teacher=lambda v: v.flip(1))  # the averaged model swaps the classes
    result = method.compute(make_batch([1], labelled, [first, second]), teacher, at(13))
    assert float(result.losses["supervised"]) == pytest.approx(math.log(4 / 3))
    # Student .5, .9 against teacher .2, .7: the mean over two classes of the same square.
    assert float(result.losses["consistency"]) == pytest.approx((0.3**2 + 0.2**2) / 2)
    # 100 at most, at t = .13 / (4 / 15) of the ramp.
    t = 0.13 / (4 / 15)
    assert result.weights["consistency"] == pytest.approx(100 * math.exp(-5 * (1 - t) ** 2))
    assert result.pseudo_labels["one_hot"].class_ids.tolist() == [1, 0]
    assert result.pseudo_labels["one_hot"].confidence.tolist() == pytest.approx([0.8, 0.7])


def test_gradient_reaches_the_student_alone() -> None:
    weight = torch.eye(3, dtype=torch.float64).requires_grad_()
    average = (2 * torch.eye(3, dtype=torch.float64)).requires_grad_()
    first, second = torch.randn(2, 5, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    example = make_batch([0, 2], torch.zeros(2, 3, dtype=torch.float64), [first, second])
    forward = ScriptedForward(lambda v: v @ weight, teacher=lambda v: v @ average)
    result = MeanTeacher(MeanTeacherConfig(), make_task(3)).compute(example, forward, at(0))
    result.losses["consistency"].backward()
    assert average.grad is None
    assert weight.grad is not None
    # d/dW of mean over U and K of (p - q)^2, with q constant, by finite differences.
    target = (second @ average).softmax(-1).detach()

    def loss(w: torch.Tensor) -> float:
        return float(((first @ w).softmax(-1) - target).square().mean())

    step = torch.zeros(3, 3, dtype=torch.float64)
    step[1, 2] = 1e-6
    slope = (loss(weight.detach() + step) - loss(weight.detach() - step)) / 2e-6
    assert float(weight.grad[1, 2]) == pytest.approx(slope, rel=1e-6)


def test_defaults_are_the_papers() -> None:
    config = MeanTeacherConfig()
    assert (config.lambda_u, config.ramp_up) == (100.0, pytest.approx(40_000 / 150_000))
