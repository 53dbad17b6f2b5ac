"""Pseudo-labels from class probabilities.

Shapes: U unlabelled images, K classes.
"""

from __future__ import annotations

import torch
from torch import Tensor

from semco.pseudo_labels.thresholds import ThresholdPolicy
from semco.types import PseudoLabels


def one_hot_rows(class_ids: Tensor, classes: int, dtype: torch.dtype) -> Tensor:
    """Return 1 at the class of each row and 0 elsewhere, for ids (N,): (N, K).

    `torch.nn.functional.one_hot` makes integers first, and on CPUs it reads the ids to check them.
    """
    return (class_ids[:, None] == torch.arange(classes, device=class_ids.device)).to(dtype)


@torch.no_grad()
def one_hot_pseudo_labels(logits: Tensor, policy: ThresholdPolicy) -> PseudoLabels:
    """Return the most likely classes of logits (U, K) on the weak view, weighted by a policy (SemCo, Eq. 7)."""
    probabilities = logits.softmax(dim=-1)
    confidence, class_ids = probabilities.max(dim=-1)
    return PseudoLabels(class_ids=class_ids, weights=policy.weights(probabilities), confidence=confidence)


@torch.no_grad()
def soft_pseudo_labels(probabilities: Tensor, weights: Tensor | None = None) -> PseudoLabels:
    """Return the most likely classes of target distributions (U, K); without weights every image counts."""
    confidence, class_ids = probabilities.detach().max(dim=-1)
    kept = torch.ones_like(confidence) if weights is None else weights.to(confidence.dtype)
    return PseudoLabels(class_ids=class_ids, weights=kept, confidence=confidence)
