"""Pseudo-labels of the semantic head: class scores, group scores, and the embedding to predict.

Shapes: U unlabelled images, K classes, d embedding size, Q groups.
M (K, d) has L2-normalised rows. The paper's cluster assignment matrix A (K, Q) is never built: `ClassGroups` needs U K
operations for what a product with A does in U K Q.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from semco.types import Outputs, PseudoLabels


@dataclass(frozen=True, kw_only=True)
class SemanticPseudoLabels(PseudoLabels):
    """`PseudoLabels` whose confidence is the score of the winning group."""

    group_ids: Tensor  # (U,) int64, the winning group
    class_weights: Tensor  # (U, K), the class scores within that group, summing to 1
    target: Tensor  # (U, d), mean of the group's rows of M with these weights


@dataclass(frozen=True)
class SemanticScores:
    """Scores of the semantic head."""

    classes: Tensor  # (U, K), p of the paper, summing to 1
    groups: Tensor  # (U, Q), g of the paper, compared with the threshold


class ClassGroups(nn.Module):
    """Which class belongs to which group."""

    of_class: Tensor  # (K,) int64, 0..Q-1
    sizes: Tensor  # (Q,) int64

    def __init__(self, of_class: Tensor) -> None:
        super().__init__()
        self.register_buffer("of_class", of_class.clone(), persistent=False)
        self.register_buffer("sizes", of_class.bincount(), persistent=False)

    def sum_scores(self, scores: Tensor) -> Tensor:
        """Return class scores (U, K) summed within each group (U, Q): p A."""
        empty = scores.new_zeros(len(scores), len(self.sizes))
        return empty.scatter_add(1, self.of_class.expand_as(scores), scores)

    def normalise_within(self, scores: Tensor, group_ids: Tensor) -> Tensor:
        """Return class scores (U, K), 0 outside the group (U,) of each image, divided by their sum."""
        inside = scores * (self.of_class == group_ids[:, None])
        return inside / inside.sum(dim=-1, keepdim=True)


def cosine_similarities(embedding: Tensor, label_vectors: Tensor) -> Tensor:
    """Return the cosines (N, K) of embeddings (N, d) of any length with unit rows M (K, d)."""
    return F.normalize(embedding.to(label_vectors.dtype), dim=-1) @ label_vectors.T


def class_probabilities(embedding: Tensor, label_vectors: Tensor, scale: float) -> Tensor:
    """Return p = softmax(s cos(q, M)): (N, d) and (K, d) -> (N, K)."""
    return (scale * cosine_similarities(embedding, label_vectors)).softmax(dim=-1)


def paper_scores(embedding: Tensor, label_vectors: Tensor, groups: ClassGroups, scale: float) -> SemanticScores:
    """Return the paper's scores of embeddings (U, d): p = softmax(s cos(q, M)), g = p A.

    NOTE: the paper says only that p comes from "normalizing" cosines; the scale s is ours (`scale.solve_scale`).
    """
    classes = class_probabilities(embedding, label_vectors, scale)
    return SemanticScores(classes, groups.sum_scores(classes))


def logit_scores(logits: Tensor, groups: ClassGroups) -> SemanticScores:
    """Return the scores of a semantic head that predicts one-hot targets: p = softmax of its logits (U, K), g = p A."""
    classes = logits.softmax(dim=-1)
    return SemanticScores(classes, groups.sum_scores(classes))


@torch.no_grad()
def semantic_pseudo_labels(
    scores: SemanticScores, label_vectors: Tensor, groups: ClassGroups, weights: Tensor, best_in_group: bool
) -> SemanticPseudoLabels:
    """Return the pseudo-labels of the semantic head (text below Eq. 4), given the mask of Eq. 4 as weights (U,).

    The class is argmax p (paper), or the best class inside the winning group if ``best_in_group``.
    """
    confidence, group_ids = scores.groups.max(dim=-1)
    class_weights = groups.normalise_within(scores.classes, group_ids)
    return SemanticPseudoLabels(
        class_ids=(class_weights if best_in_group else scores.classes).argmax(dim=-1),
        weights=weights,
        confidence=confidence,
        group_ids=group_ids,
        class_weights=class_weights,
        target=class_weights @ label_vectors,
    )


def disagreement(one_hot: PseudoLabels, semantic: PseudoLabels) -> Tensor:
    """Return 1 where both heads retain an image with different classes, else 0 (soft weights: their product): (U,)."""
    return (one_hot.class_ids != semantic.class_ids) * one_hot.weights * semantic.weights


def embedding_of(outputs: Outputs) -> Tensor:
    """Return the prediction of the semantic head (N, d); it exists because the method declares that head."""
    assert outputs.embedding is not None
    return outputs.embedding
