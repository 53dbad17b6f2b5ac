"""Threshold policies: how much each pseudo-label of a head counts. One policy per head.

A head *chooses*: the one-hot head among K classes, SemCo's semantic head among Q groups of classes.
The adaptive policies are in the files of their methods: `semco.methods.flexmatch`, `freematch` and `softmatch`.
Shapes: U unlabelled images, C choices (K or Q).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor, nn

from semco.models.averaging import update_weight
from semco.types import Progress


class ThresholdPolicy(nn.Module, ABC):
    """Turns the scores of a head into weights in [0, 1]. What a policy learns during a run lives in its buffers."""

    # Buffers with one row per image of the unlabelled pool, see `semco.methods.base.Method`.
    per_image_buffers: ClassVar[tuple[str, ...]] = ()
    # Whether `update` does anything; the scores of a step are gathered from all processes only for those.
    is_adaptive: ClassVar[bool] = True

    def update(self, scores: Tensor, index: Tensor) -> None:
        """Learn from the scores (N, C) of all images of a step, at the positions (N,) of the unlabelled pool."""

    @abstractmethod
    def weights(self, scores: Tensor) -> Tensor:
        """Return the weights (U,) of the best choices of scores (U, C); 0 discards an image. Changes nothing."""

    def loss_weight(self) -> Tensor | None:
        """Return a factor () of all losses on pseudo-labels, or None for 1."""
        return None

    def losses(self, strong_scores: Tensor, weights: Tensor, progress: Progress) -> dict[str, Tensor]:  # noqa: ARG002
        """Return loss terms of the policy itself, from scores (U, C) of the strong views and the weights (U,)."""
        return {}

    @property
    def weights_of_losses(self) -> Mapping[str, float]:
        """The weight of each loss that `losses` returns; empty for a policy without losses."""
        return {}


class FixedThreshold(ThresholdPolicy):
    """1 where the highest score reaches a threshold, else 0: FixMatch, and Eq. 4 and 7 of SemCo."""

    is_adaptive = False

    def __init__(self, threshold: float) -> None:
        super().__init__()
        self.threshold = threshold

    def weights(self, scores: Tensor) -> Tensor:
        return (scores.amax(dim=-1) >= self.threshold).to(scores.dtype)


def update_policy(policy: ThresholdPolicy, scores: Tensor, index: Tensor, progress: Progress) -> None:
    """Let a policy learn from the whole step, of which this process has scores (U, C) at positions (U,)."""
    if policy.is_adaptive:
        with torch.no_grad():
            policy.update(progress.gather(scores), progress.gather(index))


class RunningRate(nn.Module):
    """The weight of the current step in the moving averages of a policy: 1 - decay.

    With warm-up the first steps count more (`semco.models.averaging`); otherwise a decay of 0.999 would keep the
    statistics of a run of 500 steps near their initial values.
    """

    steps: Tensor  # () int64

    def __init__(self, decay: float, warmup: bool) -> None:
        super().__init__()
        self.decay, self.warmup = decay, warmup
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))

    def forward(self) -> Tensor:
        """Count a step and return its weight (), float32."""
        self.steps += 1
        least = 1 - self.decay
        return update_weight(self.steps, least) if self.warmup else self.steps.new_tensor(least, dtype=torch.float32)


def prior_of(sizes: Tensor) -> Tensor:
    """Return the scores (C,) of a head that knows nothing, from the number of classes in each choice (C,).

    For classes it is 1/K each. A group of three classes expects three times the images of a group of one, so adaptive
    policies compare what they see with this prior.
    """
    return sizes.float() / sizes.sum()
