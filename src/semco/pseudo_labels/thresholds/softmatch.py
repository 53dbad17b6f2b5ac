"""SoftMatch: Addressing the Quantity-Quality Trade-off in Semi-supervised Learning (Chen et al. 2023).

Shapes: U unlabelled images, C choices.
"""

from __future__ import annotations

from torch import Tensor

from semco.across import rows_across
from semco.pseudo_labels.alignment import DistributionAlignment
from semco.pseudo_labels.thresholds.base import Pace, ThresholdPolicy, prior_of

# The Gaussian's deviation is that of the confidence over this.
# NOTE: as in the authors' code; their Eq. 7 reads as if it were 1.
DEVIATIONS = 2.0
# Of the confidence, before the first step.
FIRST_VARIANCE = 1.0
# Keeps 0 / 0 out where all confidences are the same.
SMALLEST_VARIANCE = 1e-12


class SoftMatchWeights(ThresholdPolicy):
    """Every sample counts: fully above the mean confidence, less and less below it, along a Gaussian.

    Confidence is that of scores aligned to the prior (uniform alignment), so that easy choices do not crowd out the
    others; the choices themselves stay those of the scores as they are.
    """

    mean: Tensor  # (), mu_t
    variance: Tensor  # (), sigma_t^2

    def __init__(self, decay: float, sizes: Tensor, warm_up: bool = False) -> None:
        super().__init__()
        self.pace = Pace(decay, warm_up)
        prior = prior_of(sizes)
        # Nothing to align before anything is known: groups of different sizes are expected differently often.
        self.alignment = DistributionAlignment(sizes, expected=prior)
        self.register_buffer("mean", prior.max())
        self.register_buffer("variance", prior.new_full((), FIRST_VARIANCE))

    @property
    def mean_confidence(self) -> Tensor:
        return self.mean

    def update(self, confidence: Tensor, choices: Tensor, scores: Tensor, index: Tensor) -> None:  # noqa: ARG002
        """Moving averages of mean and unbiased variance of the aligned confidence."""
        scores = rows_across(scores)
        self.alignment.remember(scores)
        aligned, weight = self._confidence(scores), self.pace()
        self.mean.lerp_(aligned.mean(), weight)
        self.variance.lerp_(aligned.var(correction=min(1, len(aligned) - 1)), weight)

    def mask(self, confidence: Tensor, choices: Tensor, scores: Tensor) -> Tensor:  # noqa: ARG002
        return truncated_gaussian(self._confidence(scores), self.mean, self.variance)

    def _confidence(self, scores: Tensor) -> Tensor:
        return self.alignment.align(scores).amax(dim=-1)


def truncated_gaussian(confidence: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
    """exp(-(p - mu)^2 / (2 sigma^2 / 4)) below the mean, 1 from there on: (U,), (), () -> (U,)."""
    below = (confidence - mean).clamp(max=0)
    return (-0.5 * below.square() * DEVIATIONS**2 / variance.clamp(min=SMALLEST_VARIANCE)).exp()
