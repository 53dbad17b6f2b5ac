"""SoftMatch: Addressing the Quantity-Quality Trade-off in Semi-supervised Learning (Chen et al. 2023).

Shapes: U unlabelled images, K classes.
"""

from __future__ import annotations

import torch
from torch import Tensor

from semco.config import Unit
from semco.methods.fixmatch import ConsistencyConfig, ThresholdedConsistency
from semco.pseudo_labels import DistributionAlignment, ThresholdPolicy
from semco.pseudo_labels.thresholds import RunningRate
from semco.types import Task

# The deviation of the Gaussian is that of the confidence divided by this.
# NOTE: as in the authors' code; Eq. 7 of the paper reads as if it were 1.
DEVIATIONS = 2.0
# Variance of the confidence before the first step.
FIRST_VARIANCE = 1.0
# Avoids 0 / 0 where all confidences are the same.
SMALLEST_VARIANCE = 1e-12


class SoftMatchConfig(ConsistencyConfig):
    name: str = "softmatch"
    decay: Unit = 0.999
    """Decay of the running mean and variance."""
    warmup: bool = True
    """Let the running statistics follow faster at first, as training.ema_warmup does for the weights. NOTE: SoftMatch
    has no warm-up."""


class SoftMatchWeights(ThresholdPolicy):
    """Every sample counts: fully above the mean confidence, and less and less below it, along a Gaussian.

    The confidence is that of scores aligned to equal frequencies (uniform alignment), so that easy classes do not crowd
    out the others. The classes themselves are those of the original scores.
    """

    mean: Tensor  # (), mu_t
    variance: Tensor  # (), sigma_t^2

    def __init__(self, config: SoftMatchConfig, num_classes: int) -> None:
        super().__init__()
        self.rate = RunningRate(config.decay, config.warmup)
        self.alignment = DistributionAlignment(torch.ones(num_classes))
        self.register_buffer("mean", torch.tensor(1 / num_classes))
        self.register_buffer("variance", torch.tensor(FIRST_VARIANCE))

    def update(self, scores: Tensor, index: Tensor) -> None:  # noqa: ARG002
        """Eq. 8 and 9: moving averages of mean and unbiased variance of the aligned confidence."""
        self.alignment.remember(scores)
        aligned, rate = self._confidence(scores), self.rate()
        self.mean.lerp_(aligned.mean(), rate)
        self.variance.lerp_(aligned.var(correction=min(1, len(aligned) - 1)), rate)

    def weights(self, scores: Tensor) -> Tensor:
        return truncated_gaussian(self._confidence(scores), self.mean, self.variance)

    def _confidence(self, scores: Tensor) -> Tensor:
        return self.alignment.align(scores).amax(dim=-1)


def truncated_gaussian(confidence: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
    """Return exp(-(p - mu)^2 / (2 sigma^2 / 4)) below the mean and 1 above it: (U,), (), () -> (U,)."""
    below = (confidence - mean).clamp(max=0)
    return (-0.5 * below.square() * DEVIATIONS**2 / variance.clamp(min=SMALLEST_VARIANCE)).exp()


class SoftMatch(ThresholdedConsistency[SoftMatchConfig]):
    """FixMatch with every sample weighted by its confidence relative to the others, instead of a threshold."""

    name = "softmatch"
    title = "SoftMatch (Chen et al. 2023)"
    Config = SoftMatchConfig

    def __init__(self, config: SoftMatchConfig, task: Task) -> None:
        super().__init__(config, task)
        self.policy = SoftMatchWeights(config, task.num_classes)
