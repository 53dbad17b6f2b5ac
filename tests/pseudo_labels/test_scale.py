"""The similarity scale against closed forms and against what it is meant to achieve."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F

from semco.errors import UserError
from semco.pseudo_labels import ClassGroups, paper_scores, solve_scale
from semco.pseudo_labels.scale import mean_group_score

NAMES = tuple(f"class {k}" for k in range(1000))


@pytest.mark.parametrize("classes", [2, 10, 100])
@pytest.mark.parametrize("score", [0.6, 0.9, 0.99])
def test_identity_has_a_closed_form(classes: int, score: float) -> None:
    # e^s / (e^s + K - 1) = score
    expected = math.log(score * (classes - 1) / (1 - score))
    solved = solve_scale(torch.eye(classes), torch.arange(classes), score, NAMES)
    assert solved == pytest.approx(expected, abs=1e-6)


def test_identity_in_equal_groups_has_a_closed_form() -> None:
    # Groups of m: (e^s + m - 1) / (e^s + K - 1) = score
    groups = torch.arange(12) // 3
    expected = math.log((0.9 * 11 - 2) / 0.1)
    assert solve_scale(torch.eye(12), groups, 0.9, NAMES) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("grouped", [False, True])
def test_perfect_predictions_get_the_score(grouped: bool) -> None:
    """In a plain loop over classes, on a matrix with clusters."""
    generator = torch.Generator().manual_seed(0)
    centres = torch.randn(8, 16, generator=generator)
    members = torch.arange(24) % 8
    matrix = F.normalize(centres[members] + 0.4 * torch.randn(24, 16, generator=generator), dim=-1)
    groups = members if grouped else torch.arange(24)
    scale = solve_scale(matrix, groups, 0.9, NAMES)
    scores = []
    for k in range(24):
        weights = [math.exp(scale * float(matrix[k] @ matrix[j])) for j in range(24)]
        own = sum(w for j, w in enumerate(weights) if groups[j] == groups[k])
        scores.append(own / sum(weights))
    assert sum(scores) / 24 == pytest.approx(0.9, abs=1e-4)
    found = paper_scores(matrix, matrix, ClassGroups(groups), scale)
    assert found.groups[torch.arange(24), groups].tolist() == pytest.approx(scores, abs=1e-4)


def test_grouping_asks_for_a_smaller_scale() -> None:
    matrix = F.normalize(torch.tensor([[1.0, 0.1], [1.0, -0.1], [-1.0, 0.1], [-1.0, -0.1]]), dim=-1)
    together = solve_scale(matrix, torch.tensor([0, 0, 1, 1]), 0.9, NAMES)
    apart = solve_scale(matrix, torch.arange(4), 0.9, NAMES)
    assert together < 2 < 50 < apart


def test_one_group_is_warned_of_and_solved_on_classes() -> None:
    with pytest.warns(UserWarning, match=r"1 group\(s\) over 10 classes .* labels\.eps"):
        scale = solve_scale(torch.eye(10), torch.zeros(10, dtype=torch.int64), 0.9, NAMES)
    assert scale == pytest.approx(math.log(81), abs=1e-6)


def test_same_vectors_in_different_groups_are_named() -> None:
    matrix = torch.eye(3)[[0, 1, 1, 2]]
    with pytest.raises(UserError, match="'boot' and 'shoe' have nearly the same vector"):
        solve_scale(matrix, torch.arange(4), 0.9, ("bag", "boot", "shoe", "coat"))


def test_mean_group_score_at_zero_is_the_group_size() -> None:
    groups = torch.tensor([0, 0, 0, 1])
    assert mean_group_score(0.0, torch.eye(4), groups) == pytest.approx((3 * 0.75 + 0.25) / 4)


def test_many_classes_are_scored_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    matrix = F.normalize(torch.randn(10, 4, generator=torch.Generator().manual_seed(0)), dim=-1)
    groups = torch.tensor([0, 0, 1, 1, 2, 3, 4, 5, 6, 7])
    whole = mean_group_score(5.0, matrix, groups)
    monkeypatch.setattr("semco.pseudo_labels.scale.ROWS", 3)
    assert mean_group_score(5.0, matrix, groups) == pytest.approx(whole, rel=1e-12)


def test_of_many_classes_every_third_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nine orthogonal classes score alike, so that a part of them gives the mean of all."""
    expected = mean_group_score(2.0, torch.eye(9), torch.arange(9))
    monkeypatch.setattr("semco.pseudo_labels.scale.MOST_ROWS", 3)
    assert mean_group_score(2.0, torch.eye(9), torch.arange(9)) == pytest.approx(expected)
    vectors = torch.eye(9)
    vectors[1] = vectors[2] = vectors[0]  # only every third class, 0, 3 and 6, is counted
    assert mean_group_score(2.0, vectors, torch.arange(9)) == pytest.approx(
        (math.e**2 / (3 * math.e**2 + 6) + 2 * math.e**2 / (math.e**2 + 8)) / 3
    )
