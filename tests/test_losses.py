"""Losses against numbers worked out by hand."""

from __future__ import annotations

import math

import pytest
import torch

from semco.losses import (
    cosine_loss,
    cross_entropy,
    entropy,
    kl_divergence,
    masked_mean,
    retained_mean,
    soft_cross_entropy,
    squared_error,
)
from semco.types import Progress

ALONE = Progress(step=0, total_steps=1, steps_per_epoch=1, generator=torch.Generator())


def test_cross_entropy_by_hand() -> None:
    logits = torch.tensor([[math.log(2.0), 0.0, 0.0], [0.0, math.log(6.0), 0.0]])
    # Softmaxes: (2, 1, 1) / 4 and (1, 6, 1) / 8.
    expected = [math.log(2.0), math.log(8.0)]
    assert cross_entropy(logits, torch.tensor([0, 2])).tolist() == pytest.approx(expected)


def test_cosine_loss_by_hand() -> None:
    targets = torch.tensor([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0], [3.0, 4.0]])
    predictions = torch.tensor([[5.0, 0.0], [0.0, 2.0], [-1.0, 0.0], [0.4, 0.3]])
    assert cosine_loss(targets, predictions).tolist() == pytest.approx([0.0, 1.0, 2.0, 1 - 24 / 25], abs=1e-6)


def test_cosine_loss_has_no_radial_gradient() -> None:
    prediction = torch.tensor([[0.3, -0.7, 1.1]], requires_grad=True)
    cosine_loss(torch.tensor([[1.0, 2.0, 3.0]]), prediction).sum().backward()
    assert prediction.grad is not None
    assert float((prediction.grad * prediction.detach()).sum()) == pytest.approx(0.0, abs=1e-7)
    assert float(prediction.grad.norm()) > 0.1


def test_masked_mean_divides_by_all_samples() -> None:
    values, mask = torch.tensor([1.0, 2.0, 4.0, 8.0]), torch.tensor([0.0, 1.0, 0.5, 0.0])
    assert float(masked_mean(values, mask)) == 1.0  # (2 + 2) / 4
    assert float(masked_mean(values, torch.zeros(4))) == 0.0


def test_soft_cross_entropy_by_hand() -> None:
    logits = torch.tensor([[math.log(2.0), 0.0, 0.0], [0.0, math.log(6.0), 0.0]])
    targets = torch.tensor([[0.5, 0.5, 0.0], [0.0, 0.0, 1.0]])
    # Softmaxes: (2, 1, 1) / 4 and (1, 6, 1) / 8.
    expected = [0.5 * math.log(2.0) + 0.5 * math.log(4.0), math.log(8.0)]
    assert soft_cross_entropy(logits, targets).tolist() == pytest.approx(expected)


def test_soft_cross_entropy_of_one_hot_targets_is_cross_entropy() -> None:
    logits, labels = torch.randn(6, 4, generator=torch.Generator().manual_seed(0)), torch.arange(6) % 4
    torch.testing.assert_close(soft_cross_entropy(logits, torch.eye(4)[labels]), cross_entropy(logits, labels))


def test_squared_error_is_the_mean_over_classes() -> None:
    p, q = torch.tensor([[0.5, 0.5, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0]]), torch.tensor([[0.25] * 4, [0.0, 1.0, 0.0, 0.0]])
    assert squared_error(p, q).tolist() == pytest.approx([4 * 0.0625 / 4, 2 / 4])


def test_kl_divergence_by_hand() -> None:
    p = torch.tensor([[math.log(3.0), 0.0], [1.0, 1.0], [200.0, 0.0]])  # (3, 1) / 4, (1, 1) / 2, certain
    q = torch.tensor([[0.0, 0.0], [5.0, 5.0], [0.0, 0.0]])
    expected = [0.75 * math.log(1.5) + 0.25 * math.log(0.5), 0.0, math.log(2.0)]
    assert kl_divergence(q, p).tolist() == pytest.approx(expected, abs=1e-6)
    assert float(kl_divergence(p, q)[0]) == pytest.approx(0.5 * math.log(2 / 3) + 0.5 * math.log(2.0))


def test_entropy_by_hand() -> None:
    logits = torch.tensor([[7.0, 7.0, 7.0, 7.0], [math.log(2.0), 0.0, 0.0, -400.0], [300.0, 0.0, 0.0, 0.0]])
    expected = [math.log(4.0), 0.5 * math.log(2.0) + 0.5 * math.log(4.0), 0.0]
    assert entropy(logits).tolist() == pytest.approx(expected, abs=1e-6)


def test_mean_over_what_is_retained() -> None:
    values, weights = torch.tensor([1.0, 5.0, 9.0]), torch.tensor([1.0, 0.0, 1.0])
    assert float(retained_mean(values, weights, ALONE)) == pytest.approx(5.0)
    assert float(retained_mean(values, torch.zeros(3), ALONE)) == 0.0
