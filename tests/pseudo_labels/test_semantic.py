"""Semantic pseudo-labels against hand-computed numbers and a slow loop written from the paper."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from semco.methods.semco_plus import joint_scores
from semco.methods.semco_reference import SemCoReference, SemCoReferenceConfig
from semco.pseudo_labels import (
    ClassGroups,
    FixedThreshold,
    SemanticPseudoLabels,
    SemanticScores,
    class_probabilities,
    disagreement,
    paper_scores,
    semantic_pseudo_labels,
)
from semco.pseudo_labels.scale import authors_scale
from semco.types import PseudoLabels, Task

Rule = Callable[[Tensor, Tensor, ClassGroups], SemanticScores]


def paper(scale: float) -> Rule:
    return lambda q, matrix, groups: paper_scores(q, matrix, groups, scale)


def joint(scale: float, one_hot: Tensor) -> Rule:
    """SemCo+ with these probabilities of the one-hot head."""
    return lambda q, matrix, groups: joint_scores(paper_scores(q, matrix, groups, scale), one_hot, groups)


def reference(q: Tensor, matrix: Tensor, groups: ClassGroups) -> SemanticScores:
    names = tuple(map(str, range(len(matrix))))
    task = Task(names, matrix, groups.of_class, torch.ones(len(matrix)).long(), 1)
    return SemCoReference(SemCoReferenceConfig(), task).semantic_scores(q)


def pseudo_labels(
    q: Tensor, matrix: Tensor, groups: Tensor, rule: Rule, tau: float = 0.7, best_in_group: bool = False
) -> SemanticPseudoLabels:
    """Return the pseudo-labels of predictions ``q`` with a fixed threshold."""
    class_groups = ClassGroups(groups)
    scores = rule(q, matrix, class_groups)
    weights = FixedThreshold(tau).weights(scores.groups)
    return semantic_pseudo_labels(scores, matrix, class_groups, weights, best_in_group)


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
    pseudo = pseudo_labels(embedding_with_cosines(cosines)[None], matrix, groups, paper(scale))
    assert max(p) < 0.7 < p[0] + p[1]
    assert pseudo.weights.tolist() == [1.0]
    assert pseudo.confidence.tolist() == pytest.approx([0.8], abs=1e-6)
    assert pseudo.group_ids.tolist() == [0]
    assert pseudo.class_ids.tolist() == [0]
    assert pseudo.target[0].tolist() == pytest.approx([0.45 / 0.8, 0.35 / 0.8, 0, 0, 0], abs=1e-6)


def test_without_groups_the_same_sample_is_discarded() -> None:
    cosines = [math.log(x) / 8.0 + 0.3 for x in (0.45, 0.35, 0.1, 0.1)]
    q = embedding_with_cosines(cosines)[None]
    pseudo = pseudo_labels(q, torch.eye(5)[:4], torch.arange(4), paper(8.0))
    assert pseudo.weights.tolist() == [0.0]
    assert pseudo.confidence.tolist() == pytest.approx([0.45], abs=1e-6)
    assert pseudo.target[0].tolist() == pytest.approx([1, 0, 0, 0, 0])


def test_paper_label_is_the_best_class_even_outside_the_winning_group() -> None:
    cosines = [math.log(x) / 8.0 + 0.3 for x in (0.3, 0.3, 0.4)]
    pseudo = pseudo_labels(embedding_with_cosines(cosines)[None], torch.eye(4)[:3], torch.tensor([0, 0, 1]), paper(8.0))
    assert pseudo.group_ids.tolist() == [0]
    assert pseudo.class_ids.tolist() == [2]


def test_reference_scoring_by_hand() -> None:
    # Cosines .8, .6 in one group (mean .7), .0 alone. softmax within the group: 1 / (1 + e^-.2) and the rest.
    pseudo = pseudo_labels(
        torch.tensor([[0.8, 0.6, 0.0]]), torch.eye(3), torch.tensor([0, 0, 1]), reference, tau=0.69, best_in_group=True
    )
    first = 1 / (1 + math.exp(-0.2))
    assert pseudo.confidence.tolist() == pytest.approx([0.7], abs=1e-6)
    assert pseudo.weights.tolist() == [1.0]
    assert pseudo.class_ids.tolist() == [0]
    assert pseudo.target[0].tolist() == pytest.approx([first, 1 - first, 0], abs=1e-6)


def test_reference_label_is_the_best_class_inside_the_winning_group() -> None:
    # Group 0 averages (.7 + .1) / 2 = .4; group 1 is one class at .5 and wins, though .7 is the best cosine.
    cosines = torch.tensor([[0.7, 0.1, 0.5, math.sqrt(1 - 0.75)]])
    matrix, groups = torch.eye(4)[:3], torch.tensor([0, 0, 1])
    pseudo = pseudo_labels(cosines, matrix, groups, reference, best_in_group=True)
    assert pseudo.group_ids.tolist() == [1]
    assert pseudo.class_ids.tolist() == [2]
    assert pseudo.confidence.tolist() == pytest.approx([0.5], abs=1e-6)
    assert pseudo.weights.tolist() == [0.0]


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
    rule = reference if scale is None else paper(scale)
    fast = pseudo_labels(q, matrix, groups, rule, tau=0.6, best_in_group=scale is None)
    assert 0 < fast.weights.sum() < 40
    for j in range(40):
        slow = slow_loop(q[j].tolist(), matrix.tolist(), groups.tolist(), scale)
        assert int(fast.class_ids[j]) == slow.label
        assert int(fast.group_ids[j]) == slow.group
        assert float(fast.confidence[j]) == pytest.approx(slow.confidence)
        assert float(fast.weights[j]) == float(slow.confidence >= 0.6)
        assert fast.target[j].tolist() == pytest.approx(slow.target)


def test_joint_scores_trust_a_group_when_both_heads_do() -> None:
    """Scale log 9: a prediction along class 0 of 3 has p = 9/11, 1/11, 1/11; classes 0 and 1 are a group."""
    groups = torch.tensor([0, 0, 1])
    q = torch.tensor([[1.0, 0.0, 0.0]]).repeat(3, 1)
    one_hot = torch.tensor([[0.2, 0.8, 0.0], [0.1, 0.1, 0.8], [1.0, 0.0, 0.0]])
    pseudo = pseudo_labels(q, torch.eye(3), groups, joint(math.log(9.0), one_hot), tau=0.9, best_in_group=True)
    # Means of both heads: (56, 49, 5) / 110, (50.5, 10.5, 49) / 110, (100, 5, 5) / 110.
    torch.testing.assert_close(pseudo.confidence, torch.tensor([105.0, 61.0, 105.0]) / 110)
    assert pseudo.weights.tolist() == [1.0, 0.0, 1.0]
    assert pseudo.class_ids.tolist() == [0, 0, 0]
    torch.testing.assert_close(pseudo.target[0], torch.tensor([56.0, 49.0, 0.0]) / 105)


def test_a_joint_label_lies_inside_the_winning_group() -> None:
    """Class 2 is the likeliest of all, but classes 0 and 1 together are likelier."""
    one_hot = torch.tensor([[0.3, 0.3, 0.4]])
    pseudo = pseudo_labels(
        torch.tensor([[0.0, 1.0, 0.0]]),
        torch.eye(3),
        torch.tensor([0, 0, 1]),
        joint(1e-6, one_hot),
        best_in_group=True,
    )
    assert pseudo.group_ids.tolist() == [0]
    assert pseudo.class_ids.tolist() == [1]


@pytest.mark.parametrize("rule", [paper(5.0), reference, joint(5.0, torch.full((5, 4), 0.25))])
def test_no_gradient_and_no_dependence_on_length(rule: Rule) -> None:
    matrix = F.normalize(torch.randn(4, 3, generator=torch.Generator().manual_seed(0)), dim=-1)
    q = torch.randn(5, 3, generator=torch.Generator().manual_seed(1)).requires_grad_()
    groups = torch.tensor([0, 0, 1, 2])
    one, ten = (pseudo_labels(factor * q, matrix, groups, rule) for factor in (1.0, 10.0))
    torch.testing.assert_close(one.target, ten.target)
    torch.testing.assert_close(one.confidence, ten.confidence)
    assert not any(t.requires_grad for t in (one.target, one.confidence, one.weights))


def test_a_head_that_says_nothing_gives_finite_targets() -> None:
    pseudo = pseudo_labels(torch.zeros(2, 4), torch.eye(4), torch.tensor([0, 0, 1, 2]), paper(10.0))
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
    sums = ClassGroups(groups).sum_scores(scores)
    torch.testing.assert_close(sums, scores @ assignment)
    (gradient,) = torch.autograd.grad((sums * torch.arange(3.0)).sum(), scores)
    assert gradient.tolist() == [[1.0, 0.0, 1.0, 2.0]] * 3
    assert ClassGroups(groups).sizes.tolist() == [1, 2, 1]


def test_scores_are_normalised_within_the_winning_group() -> None:
    groups = ClassGroups(torch.tensor([1, 0, 1]))
    inside = groups.normalise_within(torch.tensor([[0.2, 0.3, 0.6]] * 2), torch.tensor([1, 0]))
    torch.testing.assert_close(inside, torch.tensor([[0.25, 0.0, 0.75], [0.0, 1.0, 0.0]]))


def test_disagreement_by_hand() -> None:
    def head(class_ids: list[int], weights: list[float]) -> PseudoLabels:
        return PseudoLabels(torch.tensor(class_ids), torch.tensor(weights), torch.ones(4))

    one, other = head([0, 1, 2, 0], [1, 1, 1, 0]), head([0, 2, 1, 1], [1, 1, 0.5, 1])
    assert disagreement(one, other).tolist() == [0.0, 1.0, 0.5, 0.0]


@pytest.mark.parametrize(
    ("groups", "factor"), [(2, 6.0), (9, 6.0), (10, 8.0), (12, 8 + 2 / 3), (13, 9.0), (16, 9.75), (84, 15.0434)]
)
def test_the_scale_of_the_released_code(groups: int, factor: float) -> None:
    """84 groups: 9.17074 + 7.23548 - 1.51211 + 0.15651 - 0.00739 + 0.00013 by hand."""
    assert authors_scale(groups) == pytest.approx(factor, abs=1e-4)
