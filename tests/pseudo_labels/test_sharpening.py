"""Temperature sharpening against the formula."""

from __future__ import annotations

import pytest
import torch

from semco.pseudo_labels.sharpening import sharpen


def test_by_hand() -> None:
    # Squares of (.5, .3, .2): .25, .09, .04, whose sum is .38.
    sharp = sharpen(torch.tensor([[0.5, 0.3, 0.2]]), 0.5)
    assert sharp[0].tolist() == pytest.approx([25 / 38, 9 / 38, 4 / 38])


def test_temperature_one_changes_nothing() -> None:
    p = torch.randn(5, 7, generator=torch.Generator().manual_seed(0)).softmax(dim=-1)
    torch.testing.assert_close(sharpen(p, 1.0), p)


def test_small_temperature_is_one_hot_and_zero_stays_zero() -> None:
    p = torch.tensor([[0.4, 0.35, 0.25], [0.0, 1.0, 0.0]])
    torch.testing.assert_close(sharpen(p, 1e-3), torch.tensor([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]))


def test_no_underflow_with_many_classes() -> None:
    uniform = torch.full((1, 10_000), 1e-4)
    torch.testing.assert_close(sharpen(uniform, 0.05), uniform)
