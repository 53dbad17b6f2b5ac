"""Losses as pure functions, one value per sample, predictions first and targets second.

Means are taken by `masked_mean` or `Tensor.mean`.
Shapes: N samples, U unlabelled images, K classes, d embedding size.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from semco.types import Progress


def cross_entropy(logits: Tensor, class_ids: Tensor) -> Tensor:
    """Return H(y, f(x)) for logits (N, K) and class ids (N,): (N,).

    Examples:
        >>> cross_entropy(torch.zeros(1, 4), torch.tensor([2]))
        tensor([1.3863])
    """
    return F.cross_entropy(logits, class_ids, reduction="none")


def soft_cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """Return H(q, f(x)) for logits (N, K) and target distributions (N, K): (N,).

    Examples:
        >>> soft_cross_entropy(torch.zeros(1, 2), torch.tensor([[0.5, 0.5]]))
        tensor([0.6931])
    """
    return -(targets * logits.log_softmax(dim=-1)).sum(dim=-1)


def cosine_loss(predictions: Tensor, targets: Tensor) -> Tensor:
    """Return C(z, z') = 1 - CosineSim(z, z'), of SemCo's Eq. 3, 5 and 8, for (N, d) and (N, d): (N,), in [0, 2].

    Examples:
        >>> cosine_loss(torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 2.0]]))
        tensor([1.])
    """
    return 1.0 - F.cosine_similarity(targets, predictions, dim=-1)


def squared_error(predictions: Tensor, targets: Tensor) -> Tensor:
    """Return the mean over the classes of (p - q)^2, for distributions (N, K) and (N, K): (N,).

    Examples:
        >>> squared_error(torch.tensor([[1.0, 0.0]]), torch.tensor([[0.5, 0.5]]))
        tensor([0.2500])
    """
    return (predictions - targets).square().mean(dim=-1)


def kl_divergence(logits: Tensor, target_logits: Tensor) -> Tensor:
    """Return KL(p || q) between the softmaxes p of the targets (N, K) and q of the predictions (N, K): (N,).

    Examples:
        >>> kl_divergence(torch.zeros(1, 2), torch.zeros(1, 2))
        tensor([0.])
    """
    log_p, log_q = target_logits.log_softmax(dim=-1), logits.log_softmax(dim=-1)
    return (log_p.exp() * (log_p - log_q)).sum(dim=-1)


def entropy(logits: Tensor) -> Tensor:
    """Return the entropy H(p) of the softmax of logits (N, K): (N,).

    Examples:
        >>> entropy(torch.zeros(1, 4))
        tensor([1.3863])
    """
    log_p = logits.log_softmax(dim=-1)
    return -(log_p.exp() * log_p).sum(dim=-1)


def ranking_loss(predictions: Tensor, class_ids: Tensor, label_vectors: Tensor, margin: float) -> Tensor:
    """Return DeViSE's Eq. 1: max(0, margin - t_y . q + t_j . q), the mean over the wrong classes j where it is not 0.

    NOTE: the equation is the sum. The paper trains on the first such class of a random order, which on average is the
    mean; the sum would outweigh every other loss by the number of classes.
    Predictions q (N, d), class ids y (N,), label vectors t (K, d): (N,).

    Examples:
        >>> ranking_loss(torch.tensor([[1.0, 0.0]]), torch.tensor([1]), torch.eye(2), margin=0.5)
        tensor([1.5000])
    """
    similarity = predictions @ label_vectors.T  # (N, K)
    correct = similarity.gather(1, class_ids[:, None])
    violations = (margin - correct + similarity).clamp(min=0)
    violations = violations.scatter(1, class_ids[:, None], 0.0)
    return violations.sum(dim=-1) / (violations > 0).sum(dim=-1).clamp(min=1)


def masked_mean(values: Tensor, weights: Tensor) -> Tensor:
    """Return the sum of weighted values (U,) divided by *all* U samples: (); few retained samples count little.

    Examples:
        >>> masked_mean(torch.tensor([1.0, 3.0]), torch.tensor([0.0, 1.0]))
        tensor(1.5000)
    """
    return (values * weights).mean()


def retained_mean(values: Tensor, weights: Tensor, progress: Progress) -> Tensor:
    """Return the sum of values (N,) of weight 1 divided by the mean number of these per process: (); 0 without any.

    The mean over the processes is the mean over all retained samples of the step. Weights (N,) are 0 or 1.
    """
    share = progress.mean(weights.mean()).clamp(min=torch.finfo(weights.dtype).tiny)
    return masked_mean(values, weights) / share
