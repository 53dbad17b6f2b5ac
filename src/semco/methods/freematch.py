"""FreeMatch: Self-adaptive Thresholding for Semi-supervised Learning (Wang et al. 2023).

Shapes: U unlabelled images, C choices (classes, or groups of classes).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor

from semco.config import Section, Unit
from semco.methods.fixmatch import ConsistencyConfig, ThresholdedConsistency
from semco.pseudo_labels import ThresholdPolicy, one_hot_rows
from semco.pseudo_labels.thresholds import RunningRate, prior_of
from semco.types import Progress, Task

# Keeps the ratio of two running means finite for a choice that is almost never made.
RAREST = 1e-12


class FreeMatchFields(Section):
    decay: Unit = 0.999
    """Decay of the running means."""
    warmup: bool = True
    """Let the running means follow faster at first, as training.ema_warmup does for the weights. NOTE: FreeMatch has no
    warm-up; without it runs of a few hundred steps keep the initial thresholds."""
    lambda_f: float = Field(default=0.01, ge=0)
    """Weight of the fairness loss."""
    weight: Literal["confidence", "one"] = "one"
    """Factor of the losses on pseudo-labels: the square of the mean confidence on the pool, or 1 (FreeMatch)."""


class FreeMatchConfig(FreeMatchFields, ConsistencyConfig):
    name: str = "freematch"


class FreeMatchThreshold(ThresholdPolicy):
    """The threshold is the running mean confidence, lower for choices that the head expects less than others."""

    prior: Tensor  # (C,)
    confidence: Tensor  # (), tau_t of Eq. 5
    expected: Tensor  # (C,), p~_t of Eq. 6
    frequency: Tensor  # (C,), h~_t of Eq. 10

    def __init__(self, fields: FreeMatchFields, sizes: Tensor) -> None:
        super().__init__()
        self.fields = fields
        self.rate = RunningRate(fields.decay, fields.warmup)
        prior = prior_of(sizes)
        self.register_buffer("prior", prior, persistent=False)
        self.register_buffer("confidence", prior.max())
        self.register_buffer("expected", prior.clone())
        self.register_buffer("frequency", prior.clone())

    @property
    def thresholds(self) -> Tensor:
        """Eq. 7, tau_t(c) = MaxNorm(p~_t)(c) * tau_t: (C,).

        NOTE: relative to the prior, which for classes is constant and changes nothing; groups differ in size.
        """
        status = self.expected / self.prior
        return status / status.max() * self.confidence

    def update(self, scores: Tensor, index: Tensor) -> None:  # noqa: ARG002
        """Eq. 5, 6 and 10: moving averages of the means over a step."""
        rate = self.rate()
        confidence, choices = scores.max(dim=-1)
        histogram = one_hot_rows(choices, scores.shape[-1], scores.dtype).mean(dim=0)
        self.confidence.lerp_(confidence.mean(), rate)
        self.expected.lerp_(scores.mean(dim=0), rate)
        self.frequency.lerp_(histogram, rate)

    def weights(self, scores: Tensor) -> Tensor:
        confidence, choices = scores.max(dim=-1)
        return (confidence >= self.thresholds[choices]).to(confidence.dtype)

    def loss_weight(self) -> Tensor | None:
        return self.confidence.square() if self.fields.weight == "confidence" else None

    def losses(self, strong_scores: Tensor, weights: Tensor, progress: Progress) -> dict[str, Tensor]:
        return {"fairness": fairness_loss(strong_scores, weights, self.expected, self.frequency, progress)}

    @property
    def weights_of_losses(self) -> Mapping[str, float]:
        return {"fairness": self.fields.lambda_f}


def fairness_loss(
    strong_scores: Tensor, weights: Tensor, expected: Tensor, frequency: Tensor, progress: Progress
) -> Tensor:
    """Eq. 11: minus the cross-entropy of SumNorm(p~ / h~) and SumNorm(p- / h-), which keeps predictions diverse.

    Scores (U, C) of the strong views, weights (U,), p~ (C,), h~ (C,): (). p- and h- (Eq. 9) are mean and histogram over
    the retained strong views. A choice that no retained view makes has no h-, so its term is left out. (In the authors'
    code that term is a constant without gradient.)
    """
    target = expected / frequency.clamp(min=RAREST)
    target = target / target.sum()
    chosen = one_hot_rows(strong_scores.argmax(dim=-1), strong_scores.shape[-1], strong_scores.dtype)
    means = torch.stack([(each * weights[:, None]).mean(dim=0) for each in (strong_scores, chosen)])
    mean, count = progress.mean(means)
    is_made = count > 0
    ratio = torch.where(is_made, mean / count.clamp(min=RAREST), torch.zeros_like(mean))
    balanced = ratio / ratio.sum().clamp(min=RAREST)
    return (target * torch.where(is_made, balanced, torch.ones_like(balanced)).log()).sum()


class FreeMatch(ThresholdedConsistency[FreeMatchConfig]):
    """FixMatch with thresholds that follow the network's own confidence, and a loss that keeps predictions diverse."""

    name = "freematch"
    title = "FreeMatch (Wang et al. 2023)"
    Config = FreeMatchConfig

    def __init__(self, config: FreeMatchConfig, task: Task) -> None:
        super().__init__(config, task)
        self.policy = FreeMatchThreshold(config, torch.ones(task.num_classes))
