"""FreeMatch: Self-adaptive Thresholding for Semi-supervised Learning (Wang et al. 2023).

Shapes: U unlabelled images, C choices.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from semco.across import mean_across
from semco.pseudo_labels.thresholds.base import Pace, ThresholdPolicy, prior_of

# Keeps the ratio of two running means finite for a choice that has not been made for ages.
RAREST = 1e-12


class FreeMatchThreshold(ThresholdPolicy):
    """The threshold is the running mean confidence, lower for choices that the head expects less than others."""

    prior: Tensor  # (C,)
    confidence: Tensor  # (), tau_t of Eq. 5
    expected: Tensor  # (C,), p~_t of Eq. 6
    frequency: Tensor  # (C,), h~_t of Eq. 10
    has_losses = True

    def __init__(self, decay: float, sizes: Tensor, warm_up: bool = False) -> None:
        super().__init__()
        self.pace = Pace(decay, warm_up)
        prior = prior_of(sizes)
        self.register_buffer("prior", prior, persistent=False)
        self.register_buffer("confidence", prior.max())
        self.register_buffer("expected", prior.clone())
        self.register_buffer("frequency", prior.clone())

    @property
    def thresholds(self) -> Tensor:
        """Eq. 7, tau_t(c) = MaxNorm(p~_t)(c) * tau_t -> (C,); what is normalised is relative to the prior."""
        status = self.expected / self.prior
        return status / status.max() * self.confidence

    @property
    def mean_confidence(self) -> Tensor:
        return self.confidence

    def update(self, confidence: Tensor, choices: Tensor, scores: Tensor, index: Tensor) -> None:  # noqa: ARG002
        """Eq. 5, 6 and 10: moving averages of what the batch says on average."""
        weight, kinds = self.pace(), scores.shape[-1]
        means = confidence.mean()[None], scores.mean(dim=0), _histogram(choices, scores)
        # As one: processes wait for each other at every exchange.
        of_confidence, expected, frequency = mean_across(torch.cat(means)).split((1, kinds, kinds))
        self.confidence.lerp_(of_confidence.squeeze(), weight)
        self.expected.lerp_(expected, weight)
        self.frequency.lerp_(frequency, weight)

    def mask(self, confidence: Tensor, choices: Tensor, scores: Tensor) -> Tensor:  # noqa: ARG002
        return (confidence >= self.thresholds[choices]).to(confidence.dtype)

    def losses(self, strong: Tensor, mask: Tensor) -> dict[str, Tensor]:
        return {"fairness": fairness_loss(strong, mask, self.expected, self.frequency)}


def fairness_loss(strong: Tensor, mask: Tensor, expected: Tensor, frequency: Tensor) -> Tensor:
    """Eq. 11: minus the cross-entropy of SumNorm(p~ / h~) and SumNorm(p- / h-), to keep predictions diverse.

    Scores (U, C) of the strong views, mask (U,), p~ (C,), h~ (C,) -> (). p- and h- (Eq. 9) are mean and histogram
    over the retained strong views. A choice that none of them makes has no h- and is left out, as in the authors'
    code, where it adds a constant.
    """
    target = _normalised(expected / frequency.clamp(min=RAREST))
    chosen = F.one_hot(strong.argmax(dim=-1), strong.shape[-1]).to(strong.dtype)
    mean, count = mean_across(torch.stack([(each * mask[:, None]).mean(dim=0) for each in (strong, chosen)]))
    made = count > 0
    ratio = torch.where(made, mean / count.clamp(min=RAREST), torch.zeros_like(mean))
    balanced = ratio / ratio.sum().clamp(min=RAREST)
    return (target * torch.where(made, balanced, torch.ones_like(balanced)).log()).sum()


def _histogram(choices: Tensor, scores: Tensor) -> Tensor:
    """Part of the images for which each choice is made: (U,) -> (C,)."""
    return F.one_hot(choices, scores.shape[-1]).to(scores.dtype).mean(dim=0)


def _normalised(values: Tensor) -> Tensor:
    return values / values.sum()
