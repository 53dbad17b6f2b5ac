"""Losses against numbers worked out by hand."""

from __future__ import annotations

import math

import pytest
import torch

from semco.losses import cosine_loss, cross_entropy, masked_mean


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
