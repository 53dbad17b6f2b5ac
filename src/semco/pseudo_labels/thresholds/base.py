"""Which pseudo-labels to trust: one policy a head.

A head *chooses*: the one-hot head among K classes, SemCo's semantic head among Q groups of classes.
Shapes: U unlabelled images, C choices (K or Q).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import torch
from torch import Tensor, nn

from semco.averaging import update_weight


class ThresholdPolicy(nn.Module, ABC):
    """Weights in [0, 1] for pseudo-labels. What a policy learns during a run lives in its buffers.

    Called with the head's statements about the weak views: it learns from them while training, then judges them.
    """

    # Buffers with a row for each image of the unlabelled pool, see `semco.methods.base.Method`.
    per_image_buffers: ClassVar[tuple[str, ...]] = ()
    # Whether `losses` has anything to say: where it has not, nobody makes scores of the strong views for it.
    has_losses: ClassVar[bool] = False

    def forward(self, confidence: Tensor, choices: Tensor, scores: Tensor, index: Tensor) -> Tensor:
        if self.training:
            self.update(confidence, choices, scores, index)
        return self.mask(confidence, choices, scores)

    def update(self, confidence: Tensor, choices: Tensor, scores: Tensor, index: Tensor) -> None:
        """Learn from this step; ``index`` (U,) are places in the unlabelled pool. Nothing, by default.

        What a policy wants to know of the step as a whole it asks of all processes (`semco.across`).
        """

    @abstractmethod
    def mask(self, confidence: Tensor, choices: Tensor, scores: Tensor) -> Tensor:
        """Confidence (U,), choices (U,) int64, scores (U, C) -> weights (U,); 0 discards a sample."""

    @property
    def mean_confidence(self) -> Tensor | None:
        """How sure the head is of the pool on average, (), for a policy that keeps account of it."""
        return None

    def losses(self, strong: Tensor, mask: Tensor) -> dict[str, Tensor]:  # noqa: ARG002
        """Loss terms of the policy's own, from scores (U, C) of the strong views with gradient and the mask (U,)."""
        return {}


class FixedThreshold(ThresholdPolicy):
    """1 where the confidence reaches a threshold, else 0: FixMatch, and Eq. 4 and 7 of SemCo."""

    def __init__(self, threshold: float) -> None:
        super().__init__()
        self.threshold = threshold

    def mask(self, confidence: Tensor, choices: Tensor, scores: Tensor) -> Tensor:  # noqa: ARG002
        return (confidence >= self.threshold).to(confidence.dtype)


class Pace(nn.Module):
    """What the step at hand weighs in a policy's moving averages: 1 - decay.

    Warmed up it weighs more at first (`semco.averaging`): a decay of 0.999 would keep the statistics of a run of 500
    steps where they began.
    """

    steps: Tensor  # () int64

    def __init__(self, decay: float, warm_up: bool) -> None:
        super().__init__()
        self.decay, self.warm_up = decay, warm_up
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))

    def forward(self) -> Tensor:
        """The weight (), float32, of the next step."""
        self.steps += 1
        least = 1 - self.decay
        return update_weight(self.steps, least) if self.warm_up else self.steps.new_tensor(least, dtype=torch.float32)


def prior_of(sizes: Tensor) -> Tensor:
    """Number of classes in each choice (C,) -> what a head that knows nothing says, (C,), summing to 1.

    For classes it is 1/K each. A group of three classes expects three times the images of a group of one, so that
    adaptive policies measure what a group has learnt against this prior.
    """
    return sizes.float() / sizes.sum()
