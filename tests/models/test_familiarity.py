"""Familiarity: the largest cosine with the mean features of a class, by hand."""

from __future__ import annotations

import pytest
import torch

from semco.models import familiarity
from semco.models.familiarity import Familiarity, fit_familiarity

ROOT = 0.5**0.5


def test_the_largest_cosine_with_a_class() -> None:
    found = Familiarity(torch.tensor([[1.0, 0.0, 0.0], [0.0, 0.6, 0.8]]))
    features = torch.tensor([[3.0, 4.0, 0.0], [0.0, 0.0, 2.0], [0.0, 0.0, -1.0]])
    torch.testing.assert_close(found(features), torch.tensor([0.6, 0.8, 0.0]))


@pytest.mark.parametrize("read", [1, 1024])
def test_each_label_is_held_out_in_turn(monkeypatch: pytest.MonkeyPatch, read: int) -> None:
    """Class 0 has (1, 0) and (0, 1), class 1 has (-1, 0) twice, class 2 has (0, -1) alone.

    Without itself, (1, 0) is compared with (0, 1), (-1, 0) and (0, -1): the largest cosine is 0. So is that of (0, 1).
    (-1, 0) has an equal in its class: 1. The only image of class 2 has no value. Lengths do not count.
    """
    monkeypatch.setattr(familiarity, "READ", read)
    features = torch.tensor([[2.0, 0.0], [0.0, 5.0], [-1.0, 0.0], [-3.0, 0.0], [0.0, -1.0]])
    found, values = fit_familiarity(lambda position: features[position], torch.tensor([0, 0, 1, 1, 2]), 3)
    torch.testing.assert_close(found.means, torch.tensor([[ROOT, ROOT], [-1.0, 0.0], [0.0, -1.0]]))
    torch.testing.assert_close(values, torch.tensor([0.0, 0.0, 1.0, 1.0]))
