"""Losses as pure functions, one value a sample; means are taken by `masked_mean` or `Tensor.mean`.

Shapes: N samples, U unlabelled images, K classes, d embedding size.
"""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor


def cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """H(y, f(x)) for logits (N, K) and class numbers (N,) -> (N,)."""
    return F.cross_entropy(logits, labels, reduction="none")


def cosine_loss(targets: Tensor, predictions: Tensor) -> Tensor:
    """C(z, z') = 1 - CosineSim(z, z') (SemCo, below Eq. 3) for (N, d) and (N, d) -> (N,), in [0, 2]."""
    return 1.0 - F.cosine_similarity(targets, predictions, dim=-1)


def masked_mean(values: Tensor, mask: Tensor) -> Tensor:
    """Sum of retained values over *all* U samples, (U,) and (U,) -> (); few retained samples weigh little."""
    return (values * mask).mean()
