"""Semantic pseudo-labels against hand-computed numbers and a slow loop written from the paper."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from semco.pseudo_labels import (
    ClassGroups,
    FixedThreshold,
    JointScoring,
    PaperScoring,
    ReferenceScoring,
    ScoringRule,
    SemanticPseudoLabels,
    class_probabilities,
    semantic_pseudo_labels,
)


def pseudo_labels(
    q: Tensor,
    matrix: Tensor,
    groups: Tensor,
    rule: ScoringRule,
    tau: float = 0.7,
    one_hot: Tensor | None = None,
) -> SemanticPseudoLabels:
    """Pseudo-labels of predictions ``q``; where the one-hot head says nothing, it is sure of class 0."""
    heard = torch.eye(len(matrix), dtype=matrix.dtype)[[0] * len(q)] if one_hot is None else one_hot
    index = torch.arange(len(q))
    return semantic_pseudo_labels(q, heard, index, matrix, ClassGroups(groups), rule, FixedThreshold(tau))


def embedding_with_cosines(cosines: list[float]) -> Tensor:
    """A unit vector with the given cosines to the first axes; the rest of its length lies on the last one."""
    rest = 1.0 - sum(c * c for c in cosines)
    return torch.tensor([*cosines, math.sqrt(rest)])


def test_figure_of_the_paper_bicycle_and_motorbike() -> None:
    """Each below the threshold, together above it; the target is their mean weighted by their scores."""
    # Scores .45 bicycle, .35 motorbike, .1 apple, .1 plane: cosines are their logarithms plus a constant.
    p = [0.45, 0.35, 0.1, 0.1]
    scale = 8.0
    cosines = [math.log(x) / scale + 0.3 for x in p]
    matrix = torch.eye(5)[:4]
    groups = torch.tensor([0, 0, 1, 2])
    pseudo = pseudo_labels(embedding_with_cosines(cosines)[None], matrix, groups, PaperScoring(scale))
    assert max(p) < 0.7 < p[0] + p[1]
    assert pseudo.mask.tolist() == [1.0]
    assert pseudo.confidence.tolist() == pytest.approx([0.8], abs=1e-6)
    assert pseudo.groups.tolist() == [0]
    assert pseudo.labels.tolist() == [0]
    assert pseudo.target[0].tolist() == pytest.approx([0.45 / 0.8, 0.35 / 0.8, 0, 0, 0], abs=1e-6)


def test_without_groups_the_same_sample_is_discarded() -> None:
    cosines = [math.log(x) / 8.0 + 0.3 for x in (0.45, 0.35, 0.1, 0.1)]
    q = embedding_with_cosines(cosines)[None]
    pseudo = pseudo_labels(q, torch.eye(5)[:4], torch.arange(4), PaperScoring(8.0))
    assert pseudo.mask.tolist() == [0.0]
    assert pseudo.confidence.tolist() == pytest.approx([0.45], abs=1e-6)
    assert pseudo.target[0].tolist() == pytest.approx([1, 0, 0, 0, 0])


def test_paper_label_is_the_best_class_even_outside_the_winning_group() -> None:
    cosines = [math.log(x) / 8.0 + 0.3 for x in (0.3, 0.3, 0.4)]
    pseudo = pseudo_labels(
        embedding_with_cosines(cosines)[None], torch.eye(4)[:3], torch.tensor([0, 0, 1]), PaperScoring(8.0)
    )
    assert pseudo.groups.tolist() == [0]
    assert pseudo.labels.tolist() == [2]


def test_reference_scoring_by_hand() -> None:
    # Cosines .8, .6 in one group (mean .7), .0 alone. softmax within the group: 1 / (1 + e^-.2) and the rest.
    pseudo = pseudo_labels(
        torch.tensor([[0.8, 0.6, 0.0]]), torch.eye(3), torch.tensor([0, 0, 1]), ReferenceScoring(), tau=0.69
    )
    first = 1 / (1 + math.exp(-0.2))
    assert pseudo.confidence.tolist() == pytest.approx([0.7], abs=1e-6)
    assert pseudo.mask.tolist() == [1.0]
    assert pseudo.labels.tolist() == [0]
    assert pseudo.target[0].tolist() == pytest.approx([first, 1 - first, 0], abs=1e-6)


def test_reference_label_is_the_best_class_inside_the_winning_group() -> None:
    # Group 0 averages (.7 + .1) / 2 = .4; group 1 is one class at .5 and wins, though .7 is the best cosine.
    cosines = torch.tensor([[0.7, 0.1, 0.5, math.sqrt(1 - 0.75)]])
    matrix, groups = torch.eye(4)[:3], torch.tensor([0, 0, 1])
    reference = pseudo_labels(cosines, matrix, groups, ReferenceScoring())
    assert reference.groups.tolist() == [1]
    assert reference.labels.tolist() == [2]
    assert reference.confidence.tolist() == pytest.approx([0.5], abs=1e-6)
    assert reference.mask.tolist() == [0.0]


@dataclass
class Slow:
    label: int
    group: int
    confidence: float
    target: list[float]


def slow_loop(q: list[float], matrix: list[list[float]], groups: list[int], scale: float | None) -> Slow:
    """One sample in plain Python; without a scale, by the description of the authors' code."""
    length = math.sqrt(sum(x * x for x in q))
    cosines = [sum(a * b for a, b in zip(q, row, strict=True)) / length for row in matrix]
    exps = [math.exp((scale or 1.0) * c) for c in cosines]
    p = [e / sum(exps) for e in exps]
    members = [[k for k, g in enumerate(groups) if g == wanted] for wanted in range(max(groups) + 1)]
    if scale is None:
        scores = [sum(cosines[k] for k in ks) / len(ks) for ks in members]
    else:
        scores = [sum(p[k] for k in ks) for ks in members]
    group = max(range(len(scores)), key=scores.__getitem__)
    inside = members[group]
    mass = sum(p[k] for k in inside)
    target = [sum(p[k] / mass * matrix[k][i] for k in inside) for i in range(len(q))]
    label = max(inside if scale is None else range(len(p)), key=p.__getitem__)
    return Slow(label, group, scores[group], target)


@pytest.mark.parametrize("scale", [None, 3.0, 20.0])
def test_against_the_slow_loop(scale: float | None) -> None:
    generator = torch.Generator().manual_seed(1)
    matrix = F.normalize(torch.randn(9, 6, generator=generator, dtype=torch.float64), dim=-1)
    groups = torch.tensor([0, 1, 1, 2, 3, 2, 1, 4, 0])
    q = 3 * torch.randn(40, 6, generator=generator, dtype=torch.float64)
    rule: ScoringRule = ReferenceScoring() if scale is None else PaperScoring(scale)
    fast = pseudo_labels(q, matrix, groups, rule, tau=0.6)
    assert 0 < fast.mask.sum() < 40
    for j in range(40):
        slow = slow_loop(q[j].tolist(), matrix.tolist(), groups.tolist(), scale)
        assert int(fast.labels[j]) == slow.label
        assert int(fast.groups[j]) == slow.group
        assert float(fast.confidence[j]) == pytest.approx(slow.confidence)
        assert float(fast.mask[j]) == float(slow.confidence >= 0.6)
        assert fast.target[j].tolist() == pytest.approx(slow.target)


def test_joint_scores_trust_a_group_when_both_heads_do() -> None:
    """Scale log 9: a prediction along class 0 of 3 has p = 9/11, 1/11, 1/11; classes 0 and 1 are a group."""
    rule, groups = JointScoring(math.log(9.0)), torch.tensor([0, 0, 1])
    q = torch.tensor([[1.0, 0.0, 0.0]]).repeat(3, 1)
    one_hot = torch.tensor([[0.2, 0.8, 0.0], [0.1, 0.1, 0.8], [1.0, 0.0, 0.0]])
    pseudo = pseudo_labels(q, torch.eye(3), groups, rule, tau=0.9, one_hot=one_hot)
    # Means of both heads: (56, 49, 5) / 110, (50.5, 10.5, 49) / 110, (100, 5, 5) / 110.
    torch.testing.assert_close(pseudo.confidence, torch.tensor([105.0, 61.0, 105.0]) / 110)
    assert pseudo.mask.tolist() == [1.0, 0.0, 1.0]
    assert pseudo.labels.tolist() == [0, 0, 0]
    torch.testing.assert_close(pseudo.target[0], torch.tensor([56.0, 49.0, 0.0]) / 105)


def test_a_joint_label_lies_inside_the_winning_group() -> None:
    """Class 2 is the likeliest of all, but classes 0 and 1 together are likelier."""
    one_hot = torch.tensor([[0.3, 0.3, 0.4]])
    pseudo = pseudo_labels(
        torch.tensor([[0.0, 1.0, 0.0]]), torch.eye(3), torch.tensor([0, 0, 1]), JointScoring(1e-6), one_hot=one_hot
    )
    assert pseudo.groups.tolist() == [0]
    assert pseudo.labels.tolist() == [1]


@pytest.mark.parametrize("rule", [PaperScoring(5.0), ReferenceScoring(), JointScoring(5.0)])
def test_no_gradient_and_no_dependence_on_length(rule: ScoringRule) -> None:
    matrix = F.normalize(torch.randn(4, 3, generator=torch.Generator().manual_seed(0)), dim=-1)
    q = torch.randn(5, 3, generator=torch.Generator().manual_seed(1)).requires_grad_()
    groups = torch.tensor([0, 0, 1, 2])
    one, ten = (pseudo_labels(factor * q, matrix, groups, rule) for factor in (1.0, 10.0))
    torch.testing.assert_close(one.target, ten.target)
    torch.testing.assert_close(one.confidence, ten.confidence)
    assert not any(t.requires_grad for t in (one.target, one.confidence, one.mask))


def test_a_head_that_says_nothing_gives_finite_targets() -> None:
    pseudo = pseudo_labels(torch.zeros(2, 4), torch.eye(4), torch.tensor([0, 0, 1, 2]), PaperScoring(10.0))
    assert pseudo.confidence.tolist() == [0.5, 0.5]
    assert pseudo.target[0].tolist() == [0.5, 0.5, 0.0, 0.0]


def test_class_probabilities_by_hand() -> None:
    # Cosines 1 and 0 at scale log 9.
    p = class_probabilities(torch.tensor([[7.0, 0.0]]), torch.eye(2), math.log(9.0))
    assert p[0].tolist() == pytest.approx([0.9, 0.1])


def test_sums_within_groups_are_a_product_with_the_assignment() -> None:
    groups = torch.tensor([1, 0, 1, 2])
    assignment = torch.tensor([[0.0, 1, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]])
    scores = torch.rand(3, 4, generator=torch.Generator().manual_seed(0)).requires_grad_()
    sums = ClassGroups(groups).sums(scores)
    torch.testing.assert_close(sums, scores @ assignment)
    (gradient,) = torch.autograd.grad((sums * torch.arange(3.0)).sum(), scores)
    assert gradient.tolist() == [[1.0, 0.0, 1.0, 2.0]] * 3
    assert ClassGroups(groups).sizes.tolist() == [1, 2, 1]


def test_scores_outside_a_group_are_nothing() -> None:
    inside = ClassGroups(torch.tensor([1, 0, 1])).within(torch.tensor([[0.2, 0.3, 0.5]] * 2), torch.tensor([1, 0]))
    torch.testing.assert_close(inside, torch.tensor([[0.2, 0.0, 0.5], [0.0, 0.3, 0.0]]))
