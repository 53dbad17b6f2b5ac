"""Pseudo-labels from class probabilities.

Shapes: U unlabelled images, K classes.
"""

from __future__ import annotations

import torch
from torch import Tensor

from semco.pseudo_labels.thresholds import ThresholdPolicy
from semco.types import PseudoLabels


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
