"""Familiarity: the largest cosine with the mean features of a class, by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from semco.errors import UserError
from semco.evaluation.thresholds import Threshold, choose_threshold, describe_share, find_thresholds
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


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        (8, {}),
        (9, {0.1: 1}),  # 0.1 x 10 = 1
        (19, {0.05: 1, 0.1: 2}),  # 0.05 x 20 = 1
        (99, {0.01: 1, 0.05: 5, 0.1: 10}),
        (198, {0.01: 1, 0.05: 9, 0.1: 19}),  # 199 is one less than 200: rounded down
    ],
)
def test_the_rank_of_each_threshold(count: int, expected: dict[float, int]) -> None:
    values = np.random.default_rng(0).permutation(np.arange(1, count + 1)) / 1000  # the r-th lowest is r / 1000
    found = find_thresholds(values)
    assert {each.share: round(1000 * each.least) for each in found} == expected


def test_new_photos_are_rejected_as_often_as_the_threshold_says() -> None:
    generator = np.random.default_rng(1)
    shares = np.zeros(3)
    for _ in range(400):
        thresholds = find_thresholds(generator.uniform(size=119))
        shares += [float(each.least) for each in thresholds]  # of a uniform number, this is P(new < least)
    np.testing.assert_allclose(shares / 400, [0.01 / 1.2, 0.05, 0.1], atol=0.003)  # ranks 1, 6, 12 of 120


def test_a_share_without_a_threshold_is_named() -> None:
    known = (Threshold(0.05, 0.4), Threshold(0.1, 0.5))
    assert choose_threshold(known, 0.1).least == 0.5
    assert describe_share(0.05) == "rejects 5 % of photos of your classes"
    for share in (0.01, 5.0, float("nan")):
        with pytest.raises(UserError, match=rf"can reject 0\.05, 0\.1 of the photos of the classes, not {share:g}"):
            choose_threshold(known, share)
    with pytest.raises(UserError, match="cannot answer 'none of these'"):
        choose_threshold((), 0.05)
