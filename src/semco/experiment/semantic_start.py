"""The first weights of a semantic head on frozen features: a ridge regression of the label vectors.

Shapes: N labelled images, F features, d embedding size.
"""

from __future__ import annotations

import torch
from threadpoolctl import threadpool_limits
from torch import Tensor

PENALTIES = (0.1, 1.0, 10.0, 100.0, 1000.0)
# Length of the outputs with which a semantic head starts. Its loss, 3 (1 - cosine), has the curvature 3 / length²; for
# this length that is 1/4, the largest p (1 - p) in the curvature of a cross-entropy. So the learning rate of the
# one-hot head suits it. With outputs of length 1 the first steps of a short run destroyed it (docs/lab/pretrained.md).
EMBEDDING_LENGTH = 12**0.5


def fit_embedding(features: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Return weight (d, F) and bias (d,) of a ridge regression of label vectors (N, d) on features (N, F)."""
    from sklearn.linear_model import RidgeCV

    with threadpool_limits(1):
        model = RidgeCV(alphas=PENALTIES).fit(features.cpu().double().numpy(), targets.cpu().double().numpy())
    return torch.from_numpy(model.coef_).float(), torch.from_numpy(model.intercept_).float()


def with_embedding_length(weight: Tensor, bias: Tensor, features: Tensor) -> tuple[Tensor, Tensor]:
    """Return weight (d, F) and bias (d,) times a number that makes the outputs for features (N, F) as long as a
    semantic head needs, in the root mean square; their directions, and so all predictions, stay the same."""
    outputs = features.cpu().float() @ weight.T + bias
    length = outputs.square().sum(dim=1).mean().sqrt().clamp_min(1e-6)
    return EMBEDDING_LENGTH / length * weight, EMBEDDING_LENGTH / length * bias
