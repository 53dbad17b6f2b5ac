"""ICT: the mixture of predictions against the prediction of the mixture."""

from __future__ import annotations

import math

import pytest
import torch
from scripted import ScriptedForward, at, make_batch, make_task

from semco.data.mixing import beta_weights, permutation
from semco.methods.ict import ICT, ICTConfig

GENERATOR = torch.Generator().manual_seed(0)
LABELLED = torch.randn(2, 4, generator=GENERATOR, dtype=torch.float64)
IMAGES = torch.randn(6, 4, generator=GENERATOR, dtype=torch.float64)
STUDENT = torch.randn(4, 3, generator=GENERATOR, dtype=torch.float64)
TEACHER = torch.randn(4, 3, generator=GENERATOR, dtype=torch.float64)


def test_against_a_loop() -> None:
    forward = ScriptedForward(lambda v: v @ STUDENT, teacher=lambda v: v @ TEACHER)
    result = ICT(ICTConfig(), make_task(3)).compute(make_batch([0, 1], LABELLED, [IMAGES]), forward, at(10, seed=7))
    draws = at(10, seed=7).generator
    weight = float(beta_weights(1, 1.0, IMAGES, draws))
    partner = permutation(6, IMAGES.device, draws).tolist()
    assert 0.02 < weight < 0.98
    total = 0.0
    for j, k in enumerate(partner):
        mixed = weight * IMAGES[j] + (1 - weight) * IMAGES[k]
        target = weight * (IMAGES[j] @ TEACHER).softmax(0) + (1 - weight) * (IMAGES[k] @ TEACHER).softmax(0)
        total += float(((mixed @ STUDENT).softmax(0) - target).square().mean())
    assert float(result.losses["consistency"]) == pytest.approx(total / 6)
    expected = -(LABELLED @ STUDENT).log_softmax(1)[[0, 1], [0, 1]].mean()
    assert float(result.losses["supervised"]) == pytest.approx(float(expected))
    assert result.weights["consistency"] == pytest.approx(100 * math.exp(-5 * 0.6**2))
    torch.testing.assert_close(result.pseudo_labels["one_hot"].class_ids, (IMAGES @ TEACHER).argmax(1))


def test_without_mixing_it_is_a_mean_teacher_of_one_view() -> None:
    forward = ScriptedForward(lambda v: v @ STUDENT, teacher=lambda v: v @ TEACHER)
    result = ICT(ICTConfig(alpha=0.0), make_task(3)).compute(make_batch([0, 1], LABELLED, [IMAGES]), forward, at(0))
    expected = ((IMAGES @ STUDENT).softmax(1) - (IMAGES @ TEACHER).softmax(1)).square().mean()
    assert float(result.losses["consistency"]) == pytest.approx(float(expected))


def test_a_teacher_that_is_linear_agrees_with_itself() -> None:
    """Probabilities that are affine in the image are consistent under any mixing."""
    images = torch.rand(8, 3, generator=GENERATOR, dtype=torch.float64)
    images /= images.sum(dim=1, keepdim=True)
    forward = ScriptedForward(lambda v: v.log())
    result = ICT(ICTConfig(), make_task(3)).compute(make_batch([0, 1], LABELLED[:, :3].abs(), [images]), forward, at(0))
    assert float(result.losses["consistency"]) == pytest.approx(0.0, abs=1e-12)
