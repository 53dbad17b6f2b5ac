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


def soft_cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """H(q, f(x)) for logits (N, K) and distributions (N, K) -> (N,)."""
    return -(targets * logits.log_softmax(dim=-1)).sum(dim=-1)


def squared_error(predictions: Tensor, targets: Tensor) -> Tensor:
    """Mean over the classes of (p - q)^2, for distributions (N, K) and (N, K) -> (N,)."""
    return (predictions - targets).square().mean(dim=-1)


def kl_divergence(target_logits: Tensor, logits: Tensor) -> Tensor:
    """KL(p || q) between the softmaxes of logits (N, K) and (N, K) -> (N,)."""
    log_p, log_q = target_logits.log_softmax(dim=-1), logits.log_softmax(dim=-1)
    return (log_p.exp() * (log_p - log_q)).sum(dim=-1)


def entropy(logits: Tensor) -> Tensor:
    """H(p) of the softmax of logits (N, K) -> (N,)."""
    log_p = logits.log_softmax(dim=-1)
    return -(log_p.exp() * log_p).sum(dim=-1)


def ranking_loss(predictions: Tensor, labels: Tensor, matrix: Tensor, margin: float) -> Tensor:
    """DeViSE, Eq. 1: max(0, margin - t_y . q + t_j . q), the mean over the wrong classes j for which it is not 0.

    NOTE: the equation is the sum. The paper trains on the first such class of a random order, which is the mean on
    average; the sum would outweigh every other loss by the number of classes.
    Predictions q (N, d), class numbers y (N,), class vectors t (K, d) -> (N,).
    """
    similarity = predictions @ matrix.T  # (N, K)
    correct = similarity.gather(1, labels[:, None])
    violations = (margin - correct + similarity).clamp(min=0)
    violations = violations.scatter(1, labels[:, None], 0.0)
    return violations.sum(dim=-1) / (violations > 0).sum(dim=-1).clamp(min=1)
