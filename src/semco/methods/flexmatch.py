"""FlexMatch: Boosting Semi-Supervised Learning with Curriculum Pseudo Labeling (Zhang et al. 2021).

Shapes: U unlabelled images, N images in the pool, C choices (classes, or groups of classes).
"""

from __future__ import annotations

import torch
from torch import Tensor

from semco.methods.fixmatch import FixMatchConfig, ThresholdedConsistency
from semco.pseudo_labels import ThresholdPolicy
from semco.types import Task

# In the record of choices: no confident prediction for this image so far.
NEVER = -1


class FlexMatchConfig(FixMatchConfig):
    name: str = "flexmatch"


class FlexMatchThreshold(ThresholdPolicy):
    """A choice that few images have confidently received is still hard to learn and gets a lower threshold."""

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

    def update(self, scores: Tensor, index: Tensor) -> None:
        """Algorithm 1: the thresholds of a step come from the record up to the step before."""
        confidence, choices = scores.max(dim=-1)
        self.thresholds = flexible_thresholds(self.chosen, self.sizes, self.threshold)
        self.chosen[index] = torch.where(confidence >= self.threshold, choices, self.chosen[index])

    def weights(self, scores: Tensor) -> Tensor:
        confidence, choices = scores.max(dim=-1)
        return (confidence >= self.thresholds[choices]).to(confidence.dtype)


def flexible_thresholds(chosen: Tensor, sizes: Tensor, threshold: float) -> Tensor:
    """Return thresholds (C,) from the record of choices (N,) and the number of classes in each choice (C,).

    Eq. 5: sigma counts the images of each choice (for a group: per class, so that a large group does not look better
    learned than a small one). Eq. 6 and 11: beta = sigma / max(max sigma, images never chosen), which is the warm-up.
    Eq. 12: the convex mapping T = beta / (2 - beta) * tau.
    """
    counts = sizes.new_zeros(len(sizes) + 1).index_add_(0, chosen - NEVER, sizes.new_ones(len(chosen)))
    never, learned = counts[0], counts[1:] / sizes
    beta = learned / torch.maximum(learned.max(), never)
    return beta / (2 - beta) * threshold


class FlexMatch(ThresholdedConsistency[FlexMatchConfig]):
    """FixMatch with one threshold per class, lower for classes that are still hard."""

    name = "flexmatch"
    title = "FlexMatch (Zhang et al. 2021)"
    Config = FlexMatchConfig

    def __init__(self, config: FlexMatchConfig, task: Task) -> None:
        super().__init__(config, task)
        self.policy = FlexMatchThreshold(config.tau, torch.ones(task.num_classes), task.pool_size)
