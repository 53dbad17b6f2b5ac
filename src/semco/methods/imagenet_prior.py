"""What the ImageNet classifier of a pretrained backbone says about classes with similar names.

The published weights of a backbone contain a classifier of ImageNet's 1,000 classes. If a class of the user is called
like one of them, or nearly so, its logit says much about a photo before there are any labels. `prior_mean` makes
weights of a linear head from these logits. A head that is fitted to labels is then shrunk towards them, not towards 0.

Shapes: N photos, F features, D axes, C classes of ImageNet, K classes, N_l labelled rows, U rows of the pool.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from semco.data.names import wordnet_names
from semco.labels.sources import store_source
from semco.methods.base import Photos
from semco.models import FeatureTransform

# Names with a smaller cosine than the first say nothing about each other; a class is trusted fully at cosine 1.
LEAST_COSINE, TEMPERATURE = 0.6, 0.05
RIDGE = 1.0
# Photos that are read at most, evenly spaced; photos that are read at a time.
MOST_READ, READ = 16_384, 1024
MOST_SCALE = 3.0

Floats = NDArray[np.float64]


@cache
def similar_classes(names: tuple[str, ...]) -> Tensor:
    """Return weights (K, C) of ImageNet's classes for each name, by the cosines of their label vectors.

    The weights of a name sum to the trust in it: 1 if ImageNet has a class of this name, 0 if it has nothing similar.
    """
    cosines = torch.from_numpy(store_source(None).vectors(names).matrix @ _imagenet_vectors().T)
    trust = (cosines.amax(dim=1, keepdim=True) - LEAST_COSINE).clamp_min(0) / (1 - LEAST_COSINE)
    return (cosines / TEMPERATURE).softmax(dim=1) * trust.clamp_max(1)


@cache
def _imagenet_vectors() -> NDArray[np.float32]:
    return store_source(None).vectors(tuple(wordnet_names().values())).matrix


def features_of_rows(photos: Photos, transform: FeatureTransform) -> Tensor:
    """Return a matrix (D, F): by ridge regression, rows (N, D) times it are the mean features of the views, centred."""
    position = torch.linspace(0, len(photos) - 1, min(len(photos), MOST_READ)).round().long()
    size, features = transform.axes.shape[1], transform.axes.shape[0]
    squares, products = torch.zeros(size, size, dtype=torch.float64), torch.zeros(size, features, dtype=torch.float64)
    total, mean = torch.zeros(size, dtype=torch.float64), torch.zeros(features, dtype=torch.float64)
    for part in position.split(READ):
        views = photos.read(part).cpu()
        x, f = transform(views).double(), views.mean(dim=1).double()
        squares, products = squares + x.T @ x, products + x.T @ f
        total, mean = total + x.sum(dim=0), mean + f.sum(dim=0) / len(position)
    penalised = squares + RIDGE * torch.eye(size, dtype=torch.float64)
    found: Tensor = torch.linalg.solve(penalised, products - torch.outer(total, mean)).float()
    return found


def prior_mean(
    features: Tensor, classifier: Tensor, similar: Tensor, x: Tensor, class_ids: Tensor, pool: Tensor
) -> Tensor:
    """Return weights (D, K) from the logits of similar ImageNet classes, times the scale that suits the labels.

    ``features`` (D, F) are those of `features_of_rows`, ``classifier`` (C, F) is that of the backbone, ``similar``
    (K, C) are the weights of `similar_classes`. The logits of each class are divided by their standard deviation over
    all photos and multiplied by the trust in its name.
    """
    weight = features @ (similar @ classifier).T
    spread = (torch.cat([x, pool]) @ weight).std(dim=0, correction=0)
    weight = weight * similar.sum(dim=1) / spread.clamp_min(1e-6)
    return likeliest_scale((x @ weight).double().numpy(), class_ids.numpy()) * weight


def likeliest_scale(logits: Floats, class_ids: NDArray[np.int64]) -> float:
    """Return the number from 0 to `MOST_SCALE` by which logits (N_l, K) predict the classes (N_l,) best."""
    from scipy.optimize import minimize_scalar
    from scipy.special import log_softmax

    def loss(scale: float) -> float:
        return -float(log_softmax(scale * logits, axis=1)[np.arange(len(logits)), class_ids].sum())

    found = float(minimize_scalar(loss, bounds=(0, MOST_SCALE), method="bounded").x)
    return found if loss(found) < loss(0.0) else 0.0
