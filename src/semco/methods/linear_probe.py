"""Linear probe: logistic regression on the features of a frozen backbone, the yardstick for pretrained weights.

Shapes: N labelled images, F features, K classes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits
from torch import Tensor

from semco.config import MethodConfig
from semco.methods.base import FittedMethod
from semco.models import LinearHead
from semco.types import Task

# Inverse strengths of the L2 penalty from which cross-validation chooses; features of ImageNet networks need little.
STRENGTHS = (0.1, 1.0, 10.0)
MOST_FOLDS = 5
MOST_ITERATIONS = 2000
# Of the gradient; with scikit-learn's default, probabilities may be wrong by more than 1e-3.
TOLERANCE = 1e-6

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class LinearProbeConfig(MethodConfig):
    name: str = "linear_probe"


class LinearProbe(FittedMethod[LinearProbeConfig]):
    """A logistic regression on the features of the labelled images; cross-validation chooses its penalty."""

    name = "linear_probe"
    title = "Linear probe (logistic regression on frozen features)"
    Config = LinearProbeConfig

    def __init__(self, config: LinearProbeConfig, task: Task) -> None:
        super().__init__(config, task)
        self._num_classes = task.num_classes

    def fit(
        self,
        x: Tensor,
        class_ids: Tensor,
        pool: Tensor,  # noqa: ARG002
        features: Tensor | None = None,  # noqa: ARG002
    ) -> LinearHead:
        return fit_probe(x, class_ids, self._num_classes).head


class Probe(NamedTuple):
    """A fitted probe."""

    head: LinearHead
    strength: float
    """C of the logistic regression."""


def fit_probe(features: Tensor, class_ids: Tensor, num_classes: int, strength: float | None = None) -> Probe:
    """Fit a probe to the features (N, F) of labelled images; cross-validation on them chooses C unless it is given.

    Classes without a label are never predicted.
    """
    x: Floats = features.cpu().double().numpy()
    mean = x.mean(axis=0)
    x = x - mean  # the solution is the same, found in a sixth of the iterations
    y: Ints = class_ids.cpu().numpy()
    # The solution lies in the span of the images, so with fewer images than features it is found among N numbers.
    basis, coordinates = np.linalg.qr(x.T) if len(x) < x.shape[1] else (np.eye(x.shape[1]), x.T)
    with threadpool_limits(1):  # for matrices this small, threads wait for each other most of the time
        strength = _choose_strength(coordinates.T, y) if strength is None else strength
        weight, bias = _fit(coordinates.T, y, strength)
    weight = weight @ basis.T
    bias = bias - weight @ mean
    all_weights = torch.zeros(num_classes, x.shape[1])
    all_biases = torch.full((num_classes,), float(bias.min()) - 100.0)
    present = torch.from_numpy(np.unique(y))
    all_weights[present] = torch.from_numpy(weight).float()
    all_biases[present] = torch.from_numpy(bias).float()
    return Probe(LinearHead(all_weights, all_biases), strength)


def _fit(x: Floats, y: Ints, strength: float) -> tuple[Floats, Floats]:
    """Return one row of weights and one bias per class that has labels."""
    from sklearn.linear_model import LogisticRegression  # takes a second to import, which most commands do not need

    if len(np.unique(y)) == 1:  # scikit-learn needs two classes
        return np.zeros((1, x.shape[1])), np.zeros(1)
    model = LogisticRegression(C=strength, max_iter=MOST_ITERATIONS, tol=TOLERANCE).fit(x, y)
    weight, bias = model.coef_, model.intercept_
    if len(weight) == 1:  # two classes: scikit-learn returns the logit of the second
        weight, bias = np.concatenate([-weight, weight]) / 2, np.concatenate([-bias, bias]) / 2
    return weight, bias


def _choose_strength(x: Floats, y: Ints) -> float:
    """Return the C with the best accuracy in cross-validation; 1 if there are too few labels."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import StratifiedKFold, cross_val_score

    counts = np.unique(y, return_counts=True)[1]
    folds = min(MOST_FOLDS, int(counts.min()))
    if folds < 2 or len(counts) < 2:
        return 1.0
    splits = StratifiedKFold(folds, shuffle=True, random_state=0)
    scores = {
        c: float(cross_val_score(LogisticRegression(C=c, max_iter=MOST_ITERATIONS), x, y, cv=splits).mean())
        for c in STRENGTHS
    }
    return max(scores, key=lambda c: scores[c])
