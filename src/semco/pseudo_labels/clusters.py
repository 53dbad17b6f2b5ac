"""Online constrained K-means over the unlabelled pool (CoKe, Qian et al. 2022, as ProtoCon uses it).

Shapes: N images of the pool, U of them in a step, e dimensions of a projection, C clusters, K classes.
"""

from __future__ import annotations

from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

# In the record of pseudo-labels: this image has not been seen yet.
NEVER = -1
# ProtoCon's learning rate of the dual variables is 20 for 250 clusters. NOTE: here it is proportional to their number;
# with ten clusters, 20 would let one step move a dual variable by more than cosines differ.
DUAL_LR = 20 / 250
# Smallest size of a cluster, relative to the mean size.
RATIO = 0.9


class OnlineClusters(nn.Module):
    """Clusters of unit vectors that change with every step, and one label distribution per cluster.

    Each cluster has a dual variable, which is added to its cosines. It grows while the cluster gets fewer images than
    0.9 times its share and falls while it gets more, so that no cluster stays small; it is never negative.
    """

    per_image_buffers: ClassVar[tuple[str, ...]] = ("cluster", "score", "class_ids")
    centres: Tensor  # (C, e), unit vectors
    duals: Tensor  # (C,)
    counts: Tensor  # (C,), number of images in the mean that each centre is
    labels: Tensor  # (C, K), distributions
    cluster: Tensor  # (N,) int64, at the last visit of the image
    score: Tensor  # (N,), of the image in that cluster
    class_ids: Tensor  # (N,) int64, its pseudo-label

    def __init__(self, shape: tuple[int, int, int], pool_size: int) -> None:
        super().__init__()
        clusters, size, classes = shape
        self.register_buffer("centres", F.normalize(torch.randn(clusters, size), dim=-1))
        self.register_buffer("duals", torch.zeros(clusters))
        self.register_buffer("counts", torch.zeros(clusters))
        self.register_buffer("labels", torch.full((clusters, classes), 1.0 / classes))
        self.register_buffer("cluster", torch.zeros(pool_size, dtype=torch.int64))
        self.register_buffer("score", torch.zeros(pool_size))
        self.register_buffer("class_ids", torch.full((pool_size,), NEVER))

    def assign(self, projections: Tensor) -> tuple[Tensor, Tensor]:
        """Return score (U,) and cluster (U,) of unit vectors (U, e)."""
        score, cluster = (projections @ self.centres.T + self.duals).max(dim=-1)
        return score, cluster

    @torch.no_grad()
    def update(self, projections: Tensor, index: Tensor, class_ids: Tensor) -> None:
        """Update centres and dual variables by the images (U,) of a step, and record their clusters and classes."""
        score, cluster = self.assign(projections)
        members = torch.zeros_like(self.counts).index_add_(0, cluster, torch.ones_like(score))
        share = members * len(members) / len(cluster)  # 1 for a cluster of mean size
        self.duals.add_(DUAL_LR * (RATIO - share)).clamp_(min=0)
        sums = (self.centres * self.counts[:, None]).index_add_(0, cluster, projections)
        self.counts.add_(members)
        self.centres.copy_(torch.where(members[:, None] > 0, F.normalize(sums, dim=-1), self.centres))
        self.cluster[index], self.score[index], self.class_ids[index] = cluster, score, class_ids

    def relabel(self) -> None:
        """Update the labels after a pass over the pool. The centres of the next pass are means of that pass alone."""
        self.labels.copy_(label_clusters(self.cluster, self.score, self.class_ids, self.labels))
        self.counts.zero_()


def label_clusters(cluster: Tensor, score: Tensor, class_ids: Tensor, former: Tensor) -> Tensor:
    """Return the label distribution (C, K) of each cluster, from cluster, score and pseudo-label (N,) of each image.

    The weight of a class is the number of its images in the cluster times the sum of their scores. A cluster without
    images keeps its ``former`` label (C, K); images that have not been seen do not count.
    """
    place = cluster * former.shape[1] + class_ids.clamp(min=0)
    is_seen = (class_ids != NEVER).to(former.dtype)
    counts, scores = (
        torch.zeros_like(former).flatten().index_add_(0, place, values * is_seen).reshape(former.shape)
        for values in (torch.ones_like(is_seen), score.clamp(min=0))
    )
    weights = counts * scores
    total = weights.sum(dim=-1, keepdim=True)
    return torch.where(total > 0, weights / total.clamp(min=torch.finfo(total.dtype).tiny), former)
