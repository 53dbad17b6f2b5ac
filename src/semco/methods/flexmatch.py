"""FlexMatch: Boosting Semi-Supervised Learning with Curriculum Pseudo Labeling (Zhang et al. 2021).

Shapes: U unlabelled images, N images in the pool, K classes.
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
    """A class that few images have confidently received is still hard to learn and gets a lower threshold."""

    per_image_buffers = ("chosen",)
    chosen: Tensor  # (N,) int64, the last confident choice for each image
    thresholds: Tensor  # (K,)

    def __init__(self, threshold: float, num_classes: int, pool_size: int) -> None:
        super().__init__()
        self.threshold = threshold
        self.register_buffer("chosen", torch.full((pool_size,), NEVER))
        self.register_buffer("thresholds", torch.zeros(num_classes))

    def update(self, scores: Tensor, index: Tensor) -> None:
        """Algorithm 1: the thresholds of a step come from the record up to the step before."""
        confidence, choices = scores.max(dim=-1)
        self.thresholds = flexible_thresholds(self.chosen, len(self.thresholds), self.threshold)
        self.chosen[index] = torch.where(confidence >= self.threshold, choices, self.chosen[index])

    def weights(self, scores: Tensor) -> Tensor:
        confidence, choices = scores.max(dim=-1)
        return (confidence >= self.thresholds[choices]).to(confidence.dtype)


def flexible_thresholds(chosen: Tensor, num_classes: int, threshold: float) -> Tensor:
    """Return thresholds (K,) from the record of choices (N,).

    Eq. 5: sigma counts the images of each class. Eq. 6 and 11: beta = sigma / max(max sigma, images never chosen),
    which is the warm-up. Eq. 12: the convex mapping T = beta / (2 - beta) * tau.
    """
    ones = torch.ones(len(chosen), device=chosen.device)
    counts = ones.new_zeros(num_classes + 1).index_add_(0, chosen - NEVER, ones)
    never, learned = counts[0], counts[1:]
    beta = learned / torch.maximum(learned.max(), never)
    return beta / (2 - beta) * threshold


class FlexMatch(ThresholdedConsistency[FlexMatchConfig]):
    """FixMatch with one threshold per class, lower for classes that are still hard."""

    name = "flexmatch"
    title = "FlexMatch (Zhang et al. 2021)"
    Config = FlexMatchConfig

    def __init__(self, config: FlexMatchConfig, task: Task) -> None:
        super().__init__(config, task)
        self.policy = FlexMatchThreshold(config.tau, task.num_classes, task.pool_size)
