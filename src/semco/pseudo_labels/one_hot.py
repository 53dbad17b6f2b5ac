"""Pseudo-labels of the one-hot head.

Shapes: U unlabelled images, K classes.
"""

from __future__ import annotations

import torch
from torch import Tensor

from semco.pseudo_labels.thresholds import ThresholdPolicy
from semco.types import PseudoLabels


@torch.no_grad()
def one_hot_pseudo_labels(logits: Tensor, index: Tensor, policy: ThresholdPolicy) -> PseudoLabels:
    """argmax of the softmax of logits (U, K) on the weak view, weighed by a policy (Eq. 2, Eq. 7)."""
    probabilities = logits.softmax(dim=-1)
    confidence, labels = probabilities.max(dim=-1)
    mask = policy(confidence, labels, probabilities, index)
    return PseudoLabels(labels=labels, mask=mask, confidence=confidence)


@torch.no_grad()
def soft_pseudo_labels(probabilities: Tensor, mask: Tensor | None = None) -> PseudoLabels:
    """A distribution (U, K) that serves as a target, seen as a label: its argmax. Without a mask all count."""
    confidence, labels = probabilities.detach().max(dim=-1)
    kept = torch.ones_like(confidence) if mask is None else mask.to(confidence.dtype)
    return PseudoLabels(labels=labels, mask=kept, confidence=confidence)
