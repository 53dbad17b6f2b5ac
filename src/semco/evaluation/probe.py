"""The linear probe: logistic regression on the features of a backbone, the yardstick of every run that starts from
pretrained weights.

Shapes: N labelled images, F features, K classes, d embedding size.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits
from torch import Tensor

# Inverse strengths of the L2 penalty from which cross-validation chooses; features of ImageNet networks need little.
STRENGTHS = (0.1, 1.0, 10.0)
PENALTIES = (0.1, 1.0, 10.0, 100.0, 1000.0)
MOST_FOLDS = 5
MOST_ITERATIONS = 2000
# Of the gradient; with scikit-learn's default, probabilities may be wrong by more than 1e-3.
TOLERANCE = 1e-6
# Length of the outputs with which a semantic head starts. Its loss, 3 (1 - cosine), has the curvature 3 / length²; for
# this length that is 1/4, the largest p (1 - p) in the curvature of a cross-entropy. So the learning rate of the
# one-hot head suits it. With outputs of length 1 the first steps of a short run destroyed it (docs/lab/pretrained.md).
EMBEDDING_LENGTH = 12**0.5

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Probe:
    """A linear classifier of features: logits = features @ weight.T + bias."""

    weight: Tensor  # (K, F)
    bias: Tensor  # (K,)
    strength: float
    """C of the logistic regression."""
    cross_validation: float | None
    """Accuracy on labelled images that were left out in turn; None if a class has one label, or one class has all."""

    def logits(self, features: Tensor) -> Tensor:
        """Return the logits (N, K) of features (N, F)."""
        return features @ self.weight.to(features).T + self.bias.to(features)


def fit_probe(features: Tensor, class_ids: Tensor, num_classes: int) -> Probe:
    """Fit a probe to the features (N, F) of labelled images; cross-validation on them chooses C.

    Classes without a label are never predicted.
    """
    x: Floats = features.cpu().double().numpy()
    y: NDArray[np.int64] = class_ids.cpu().numpy()
    # The solution lies in the span of the images, so with fewer images than features it is found among N numbers.
    basis, coordinates = np.linalg.qr(x.T) if len(x) < x.shape[1] else (np.eye(x.shape[1]), x.T)
    with threadpool_limits(1):  # for matrices this small, threads wait for each other most of the time
        strength, accuracy = _choose_strength(coordinates.T, y)
        weight, bias = _fit(coordinates.T, y, strength)
    all_weights = torch.zeros(num_classes, x.shape[1])
    all_biases = torch.full((num_classes,), float(bias.min()) - 100.0)
    present = torch.from_numpy(np.unique(y))
    all_weights[present] = torch.from_numpy(weight @ basis.T).float()
    all_biases[present] = torch.from_numpy(bias).float()
    return Probe(all_weights, all_biases, strength, accuracy)


def _fit(x: Floats, y: NDArray[np.int64], strength: float) -> tuple[Floats, Floats]:
    """Return one row of weights and one bias per class that has labels."""
    from sklearn.linear_model import LogisticRegression  # takes a second to import, which most commands do not need

    if len(np.unique(y)) == 1:  # scikit-learn needs two classes
        return np.zeros((1, x.shape[1])), np.zeros(1)
    model = LogisticRegression(C=strength, max_iter=MOST_ITERATIONS, tol=TOLERANCE).fit(x, y)
    weight, bias = model.coef_, model.intercept_
    if len(weight) == 1:  # two classes: scikit-learn returns the logit of the second
        weight, bias = np.concatenate([-weight, weight]) / 2, np.concatenate([-bias, bias]) / 2
    return weight, bias


def _choose_strength(x: Floats, y: NDArray[np.int64]) -> tuple[float, float | None]:
    """Return the C with the best accuracy in cross-validation, and that accuracy; 1 if there are too few labels."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import StratifiedKFold, cross_val_score

    counts = np.unique(y, return_counts=True)[1]
    folds = min(MOST_FOLDS, int(counts.min()))
    if folds < 2 or len(counts) < 2:
        return 1.0, None
    splits = StratifiedKFold(folds, shuffle=True, random_state=0)
    scores = {
        c: float(cross_val_score(LogisticRegression(C=c, max_iter=MOST_ITERATIONS), x, y, cv=splits).mean())
        for c in STRENGTHS
    }
    best = max(scores, key=lambda c: scores[c])
    return best, scores[best]


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
