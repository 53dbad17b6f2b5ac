"""Pseudo-labels of the semantic head: class scores, group scores, and the embedding to predict.

Shapes: U unlabelled images, K classes, d embedding size, Q label groups.
M (K, d) has L2-normalised rows; the paper's A (K, Q), 1 where a class belongs to a group, is never written out, as
`ClassGroups` does in U K steps what a product with A does in U K Q.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from semco.pseudo_labels.thresholds import ThresholdPolicy
from semco.types import PseudoLabels


@dataclass(frozen=True)
class SemanticPseudoLabels(PseudoLabels):
    """`PseudoLabels` whose confidence is that of the winning group."""

    groups: Tensor  # (U,) int64, the winning group
    weights: Tensor  # (U, K), the class scores within that group, summing to 1
    target: Tensor  # (U, d), mean of the group's rows of M by these weights


@dataclass(frozen=True)
class Scores:
    """What a scoring rule makes of cosines."""

    classes: Tensor  # (U, K), normalised to 1
    groups: Tensor  # (U, Q), compared with the threshold


class ClassGroups(nn.Module):
    """Which class belongs to which group."""

    of_class: Tensor  # (K,) int64, 0..Q-1
    sizes: Tensor  # (Q,) int64

    def __init__(self, of_class: Tensor) -> None:
        super().__init__()
        self.register_buffer("of_class", of_class.clone(), persistent=False)
        self.register_buffer("sizes", of_class.bincount(), persistent=False)

    def sums(self, scores: Tensor) -> Tensor:
        """Scores of classes (U, K) -> their sums within each group (U, Q): p A."""
        empty = scores.new_zeros(len(scores), len(self.sizes))
        return empty.scatter_add(1, self.of_class.expand_as(scores), scores)

    def within(self, scores: Tensor, groups: Tensor) -> Tensor:
        """Scores of classes (U, K), 0 outside one group (U,) each."""
        return scores * (self.of_class == groups[:, None])


class ScoringRule(Protocol):
    """The replaceable part of the semantic head's pseudo-labels; ``scale`` is that of its class scores."""

    @property
    def scale(self) -> float: ...

    def scores(self, cosines: Tensor, one_hot: Tensor, groups: ClassGroups) -> Scores:
        """Cosines (U, K) between predictions and M, and the one-hot head's probabilities (U, K) -> `Scores`."""
        ...

    def labels(self, classes: Tensor, weights: Tensor) -> Tensor:
        """Class scores (U, K) and the same within the winning group (U, K) -> class numbers (U,)."""
        ...


@dataclass(frozen=True)
class PaperScoring:
    """The paper: p = softmax(s * cos), g = p A, label = argmax p.

    NOTE: the paper says only "normalising"; the scale s is ours (`scale.solve_scale`).
    """

    scale: float

    def scores(self, cosines: Tensor, one_hot: Tensor, groups: ClassGroups) -> Scores:  # noqa: ARG002
        classes = (self.scale * cosines).softmax(dim=-1)
        return Scores(classes=classes, groups=groups.sums(classes))

    def labels(self, classes: Tensor, weights: Tensor) -> Tensor:  # noqa: ARG002
        return classes.argmax(dim=-1)


@dataclass(frozen=True)
class JointScoring:
    """Ours: p is the mean of both heads' probabilities, and the label is the best class inside the winning group.

    A cosine says in which direction a prediction points, not how sure it is, so an untrained semantic head looks
    certain of whatever it says. The one-hot head's softmax is the witness: a group is trusted when both heads agree
    that it is one of its classes, whichever of them it be (docs/confidence.md).
    """

    scale: float

    def scores(self, cosines: Tensor, one_hot: Tensor, groups: ClassGroups) -> Scores:
        classes = ((self.scale * cosines).softmax(dim=-1) + one_hot) / 2
        return Scores(classes=classes, groups=groups.sums(classes))

    def labels(self, classes: Tensor, weights: Tensor) -> Tensor:  # noqa: ARG002
        return weights.argmax(dim=-1)


@dataclass(frozen=True)
class ReferenceScoring:
    """The authors' released code: a group scores the mean of its raw cosines, class scores are softmax(cos)
    without a scale, and the label is the best class inside the winning group."""

    scale: float = 1.0

    def scores(self, cosines: Tensor, one_hot: Tensor, groups: ClassGroups) -> Scores:  # noqa: ARG002
        return Scores(classes=cosines.softmax(dim=-1), groups=groups.sums(cosines) / groups.sizes)

    def labels(self, classes: Tensor, weights: Tensor) -> Tensor:  # noqa: ARG002
        return weights.argmax(dim=-1)


@torch.no_grad()
def semantic_pseudo_labels(
    embedding: Tensor,
    one_hot: Tensor,
    index: Tensor,
    matrix: Tensor,
    class_groups: ClassGroups,
    rule: ScoringRule,
    policy: ThresholdPolicy,
) -> SemanticPseudoLabels:
    """Predicted embeddings (U, d) of the weak view -> targets and group mask (Eq. 4 and the text by it).

    ``one_hot`` (U, K) are the other head's probabilities, which a scoring rule may hear.

    What this head chooses among is groups, so a policy judges, and keeps its statistics of, groups and their scores.
    """
    scores = rule.scores(cosine_similarities(embedding, matrix), one_hot, class_groups)
    confidence, groups = scores.groups.max(dim=-1)
    weights = class_groups.within(scores.classes, groups)  # (U, K)
    weights = weights / weights.sum(dim=-1, keepdim=True)
    labels = rule.labels(scores.classes, weights)
    return SemanticPseudoLabels(
        labels=labels,
        mask=policy(confidence, groups, scores.groups, index),
        confidence=confidence,
        groups=groups,
        weights=weights,
        target=weights @ matrix,
    )


def cosine_similarities(embedding: Tensor, matrix: Tensor) -> Tensor:
    """Embeddings (N, d) of any length against unit rows M (K, d) -> (N, K)."""
    return F.normalize(embedding.to(matrix.dtype), dim=-1) @ matrix.T


def class_probabilities(embedding: Tensor, matrix: Tensor, scale: float) -> Tensor:
    """p = softmax(s * cos(q, M)): (N, d) and (K, d) -> (N, K), for inference by the semantic head."""
    return (scale * cosine_similarities(embedding, matrix)).softmax(dim=-1)
