"""FlexMatch: Boosting Semi-Supervised Learning with Curriculum Pseudo Labeling (Zhang et al. 2021).

Shapes: U unlabelled images, N images in the pool, C choices.
"""

from __future__ import annotations

import torch
from torch import Tensor

from semco.pseudo_labels.thresholds.base import ThresholdPolicy

# In the record of chosen labels: no confident prediction of this image so far.
NEVER = -1


class FlexMatchThreshold(ThresholdPolicy):
    """A choice that few images have been confidently given is still hard, and gets a lower threshold."""

    per_image_buffers = ("chosen",)
    sizes: Tensor  # (C,), number of classes in each choice
    chosen: Tensor  # (N,) int64, the last confident choice for each image
    thresholds: Tensor  # (C,)

    def __init__(self, threshold: float, sizes: Tensor, pool_size: int) -> None:
        super().__init__()
        self.threshold = threshold
        self.register_buffer("sizes", sizes.float(), persistent=False)
        self.register_buffer("chosen", torch.full((pool_size,), NEVER))
        self.register_buffer("thresholds", torch.zeros(len(sizes)))

    def update(self, confidence: Tensor, choices: Tensor, scores: Tensor, index: Tensor) -> None:  # noqa: ARG002
        """Algorithm 1: this step's thresholds come from the record up to the step before."""
        self.thresholds = flexible_thresholds(self.chosen, self.sizes, self.threshold)
        self.chosen[index] = torch.where(confidence >= self.threshold, choices, self.chosen[index])

    def mask(self, confidence: Tensor, choices: Tensor, scores: Tensor) -> Tensor:  # noqa: ARG002
        return (confidence >= self.thresholds[choices]).to(confidence.dtype)


def flexible_thresholds(chosen: Tensor, sizes: Tensor, threshold: float) -> Tensor:
    """Record (N,) of choices, number of classes in each choice (C,) -> thresholds (C,).

    sigma counts the images of each choice (of a group: a class's share of them, so that a large group does not look
    better learnt than a small one); beta = sigma / max(max sigma, images never chosen), the warm-up; then the convex
    mapping, T = beta / (2 - beta) * tau.
    """
    counts = sizes.new_zeros(len(sizes) + 1).index_add_(0, chosen - NEVER, sizes.new_ones(len(chosen)))
    never, learnt = counts[0], counts[1:] / sizes
    beta = learnt / torch.maximum(learnt.max(), never)
    return beta / (2 - beta) * threshold
