"""Mean features of classes: a few per class by clustering, or one per class that is updated during training.

Shapes: N images, F features, K classes, P prototypes per class.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

ROUNDS = 20


class RunningPrototypes(nn.Module):
    """One unit vector per class: the direction of the mean of what was added since the last renewal."""

    vectors: Tensor  # (K, F), 0 before the first renewal
    sums: Tensor  # (K, F)

    def __init__(self, classes: int, size: int) -> None:
        super().__init__()
        self.register_buffer("vectors", torch.zeros(classes, size))
        self.register_buffer("sums", torch.zeros(classes, size))

    @torch.no_grad()
    def add(self, features: Tensor, class_ids: Tensor) -> None:
        """Add features (N, F) of classes (N,)."""
        self.sums.index_add_(0, class_ids, features)

    def renew(self) -> None:
        """Let the sums become the prototypes; a class to which nothing was added keeps its prototype."""
        has_sum = self.sums.abs().sum(dim=-1, keepdim=True) > 0
        self.vectors.copy_(torch.where(has_sum, F.normalize(self.sums, dim=-1), self.vectors))
        self.sums.zero_()


@torch.no_grad()
def class_prototypes(
    features: Tensor, class_ids: Tensor, classes: int, count: int, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Return prototypes (K, P, F) of features (N, F) with class ids (N,), and 1 where there is one, else 0: (K, P).

    The prototypes of a class with fewer than P images are the images themselves.
    """
    prototypes = features.new_zeros(classes, count, features.shape[1])
    present = features.new_zeros(classes, count)
    for number in range(classes):
        centres = cluster_means(features[class_ids == number], count, generator)
        prototypes[number, : len(centres)] = centres
        present[number, : len(centres)] = 1
    return prototypes, present


def cluster_means(features: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """Return the mean features of k-means clusters by cosine: (n, F) -> (min(n, count), F), not normalised."""
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
    """Return the initial centres (count, F): a random one of (n, F), then always the one farthest from all before."""
    chosen = [torch.randint(len(unit), (), generator=generator).to(unit.device)]
    closest = unit @ unit[chosen[0]]
    for _ in range(count - 1):
        chosen.append(closest.argmin())
        closest = torch.maximum(closest, unit @ unit[chosen[-1]])
    return unit[torch.stack(chosen)]


def _means(features: Tensor, cluster: Tensor, otherwise: Tensor) -> Tensor:
    """Return the mean features of each cluster (count, F); that of an empty one is taken from ``otherwise``."""
    sums = torch.zeros_like(otherwise).index_add_(0, cluster, features)
    sizes = otherwise.new_zeros(len(otherwise)).index_add_(0, cluster, features.new_ones(len(features)))
    return torch.where(sizes[:, None] > 0, sums / sizes.clamp(min=1)[:, None], otherwise)
