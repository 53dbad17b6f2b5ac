"""A few features that stand for each class.

Shapes: N images, F features, K classes, P prototypes of a class.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

ROUNDS = 20


@torch.no_grad()
def class_prototypes(
    features: Tensor, labels: Tensor, classes: int, count: int, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Features (N, F) and their classes (N,) -> prototypes (K, P, F), and 1 where there is one, else 0: (K, P).

    A class of fewer than P images is stood for by all of them.
    """
    prototypes = features.new_zeros(classes, count, features.shape[1])
    present = features.new_zeros(classes, count)
    for number in range(classes):
        centres = cluster_means(features[labels == number], count, generator)
        prototypes[number, : len(centres)] = centres
        present[number, : len(centres)] = 1
    return prototypes, present


def cluster_means(features: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """k-means by cosine: (n, F) -> (min(n, count), F), the mean features of the clusters, as long as they are."""
    if len(features) <= count:
        return features
    unit = F.normalize(features, dim=-1)
    centres = _spread(unit, count, generator)
    nearest = torch.full((len(unit),), -1, device=unit.device)
    for _ in range(ROUNDS):
        before, nearest = nearest, (unit @ centres.T).argmax(dim=-1)
        if torch.equal(nearest, before):
            break
        centres = F.normalize(_means(unit, nearest, centres), dim=-1)
    return _means(features, nearest, centres)


def _spread(unit: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """Where k-means starts: a random one of (n, F), then each time the one farthest from all before: (count, F)."""
    chosen = [torch.randint(len(unit), (), generator=generator).to(unit.device)]
    closest = unit @ unit[chosen[0]]
    for _ in range(count - 1):
        chosen.append(closest.argmin())
        closest = torch.maximum(closest, unit @ unit[chosen[-1]])
    return unit[torch.stack(chosen)]


def _means(features: Tensor, cluster: Tensor, otherwise: Tensor) -> Tensor:
    """Mean of the features in each cluster (count, F); an empty one is as ``otherwise`` says."""
    sums = torch.zeros_like(otherwise).index_add_(0, cluster, features)
    sizes = otherwise.new_zeros(len(otherwise)).index_add_(0, cluster, features.new_ones(len(features)))
    return torch.where(sizes[:, None] > 0, sums / sizes.clamp(min=1)[:, None], otherwise)
