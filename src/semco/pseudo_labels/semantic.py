"""Pseudo-labels of the semantic head: class scores, group scores, and the embedding to predict.

Shapes: U unlabelled images, K classes, d embedding size, Q label groups.
M (K, d) has L2-normalised rows; A (K, Q) is 1 where a class belongs to a group, else 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from semco.pseudo_labels.thresholds import ThresholdPolicy
from semco.types import PseudoLabels


@dataclass(frozen=True)
class SemanticPseudoLabels(PseudoLabels):
    """`PseudoLabels` whose confidence is that of the winning group."""

    groups: Tensor  # (U,) int64, the winning group
    target: Tensor  # (U, d), mean of the group's rows of M, weighted by the class scores


@dataclass(frozen=True)
class Scores:
    """What a scoring rule makes of cosines."""

    classes: Tensor  # (U, K), normalised to 1
    groups: Tensor  # (U, Q), compared with the threshold


class ScoringRule(Protocol):
    """The replaceable part of the semantic head's pseudo-labels; ``scale`` is that of its class scores."""

    @property
    def scale(self) -> float: ...

    def scores(self, cosines: Tensor, one_hot: Tensor, assignment: Tensor) -> Scores:
        """Cosines (U, K) between predictions and M, the one-hot head's probabilities (U, K), A (K, Q) -> `Scores`."""
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

    def scores(self, cosines: Tensor, one_hot: Tensor, assignment: Tensor) -> Scores:  # noqa: ARG002
        classes = (self.scale * cosines).softmax(dim=-1)
        return Scores(classes=classes, groups=classes @ assignment)

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

    def scores(self, cosines: Tensor, one_hot: Tensor, assignment: Tensor) -> Scores:
        classes = ((self.scale * cosines).softmax(dim=-1) + one_hot) / 2
        return Scores(classes=classes, groups=classes @ assignment)

    def labels(self, classes: Tensor, weights: Tensor) -> Tensor:  # noqa: ARG002
        return weights.argmax(dim=-1)


@dataclass(frozen=True)
class ReferenceScoring:
    """The authors' released code: a group scores the mean of its raw cosines, class scores are softmax(cos)
    without a scale, and the label is the best class inside the winning group."""

    scale: float = 1.0

    def scores(self, cosines: Tensor, one_hot: Tensor, assignment: Tensor) -> Scores:  # noqa: ARG002
        groups = (cosines @ assignment) / assignment.sum(dim=0)
        return Scores(classes=cosines.softmax(dim=-1), groups=groups)

    def labels(self, classes: Tensor, weights: Tensor) -> Tensor:  # noqa: ARG002
        return weights.argmax(dim=-1)


@torch.no_grad()
def semantic_pseudo_labels(
    embedding: Tensor,
    one_hot: Tensor,
    index: Tensor,
    matrix: Tensor,
    assignment: Tensor,
    rule: ScoringRule,
    policy: ThresholdPolicy,
) -> SemanticPseudoLabels:
    """Predicted embeddings (U, d) of the weak view -> targets and group mask (Eq. 4 and the text by it).

    ``one_hot`` (U, K) are the other head's probabilities, which a scoring rule may hear.

    What this head chooses among is groups, so a policy judges, and keeps its statistics of, groups and their scores.
    """
    scores = rule.scores(cosine_similarities(embedding, matrix), one_hot, assignment)
    confidence, groups = scores.groups.max(dim=-1)
    weights = scores.classes * assignment.T[groups]  # (U, K), 0 outside the winning group
    weights = weights / weights.sum(dim=-1, keepdim=True)
    labels = rule.labels(scores.classes, weights)
    policy.update(confidence, groups, scores.groups, index)
    return SemanticPseudoLabels(
        labels=labels,
        mask=policy.mask(confidence, groups, scores.groups),
        confidence=confidence,
        groups=groups,
        target=weights @ matrix,
    )


def cosine_similarities(embedding: Tensor, matrix: Tensor) -> Tensor:
    """Embeddings (N, d) of any length against unit rows M (K, d) -> (N, K)."""
    return F.normalize(embedding.to(matrix.dtype), dim=-1) @ matrix.T


def class_probabilities(embedding: Tensor, matrix: Tensor, scale: float) -> Tensor:
    """p = softmax(s * cos(q, M)): (N, d) and (K, d) -> (N, K), for inference by the semantic head."""
    return (scale * cosine_similarities(embedding, matrix)).softmax(dim=-1)


def group_assignment(groups: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
    """Group of each class (K,) int64 -> A (K, Q)."""
    return F.one_hot(groups, int(groups.max()) + 1).to(dtype)
