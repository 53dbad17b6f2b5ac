"""UDA: Unsupervised Data Augmentation for Consistency Training (Xie et al. 2020).

Shapes: B labelled images, U unlabelled images, K classes.
"""

from __future__ import annotations

import math
from typing import Literal

import torch
from pydantic import Field, PositiveFloat
from torch import Tensor

from semco.across import mean_across
from semco.config import MethodConfig, Unit
from semco.losses import cross_entropy, masked_mean, soft_cross_entropy
from semco.methods.base import Forward, Method
from semco.pseudo_labels import FixedThreshold, one_hot_pseudo_labels
from semco.pseudo_labels.sharpening import sharpen
from semco.types import Batch, Outputs, Progress, PseudoLabels, StepResult, Task, ViewCounts

Schedule = Literal["none", "log", "linear", "exp"]


class UDAConfig(MethodConfig):
    name: str = "uda"
    lambda_u: float = Field(default=1.0, ge=0)
    """Weight of the consistency loss."""
    temperature: PositiveFloat = 0.4
    """Temperature of the target: below 1 sharpens it."""
    tau: Unit = 0.8
    """Confidence from which an unlabelled image takes part."""
    annealing: Schedule = "linear"
    """Training-signal annealing: how the limit grows above which a labelled image is known well enough to be left
    out."""


class UDA(Method[UDAConfig]):
    """The sharpened prediction on a weak view, where it is confident, is the target of a strong view; labelled
    images are let in as the run goes on, so that a few of them are not learnt by heart."""

    name = "uda"
    title = "UDA (Xie et al. 2020)"
    Config = UDAConfig
    views = ViewCounts(labelled_weak=1, unlabelled_weak=1, unlabelled_strong=1)

    def __init__(self, config: UDAConfig, task: Task) -> None:
        super().__init__(config, task)
        self.policy = FixedThreshold(config.tau)

    def compute(self, batch: Batch, forward: Forward, progress: Progress) -> StepResult:
        outputs = forward(
            labelled=batch.labelled.weak[0],
            strong=batch.unlabelled.strong[0],
            no_grad={"weak": batch.unlabelled.weak[0]},
        )
        labelled, weak = outputs["labelled"].logits, outputs["weak"].logits.detach()
        pseudo = one_hot_pseudo_labels(weak, batch.unlabelled_index, self.policy)
        target = sharpen(weak.softmax(dim=-1), self.config.temperature)
        limit = signal_limit(self.config.annealing, progress.fraction, labelled.shape[-1])
        supervised, kept = annealed_cross_entropy(labelled, batch.labels, limit)
        return StepResult(
            losses={
                "supervised": supervised,
                "unlabelled": masked_mean(soft_cross_entropy(outputs["strong"].logits, target), pseudo.mask),
            },
            weights={"unlabelled": self.config.lambda_u},
            metrics={"mask_one_hot": pseudo.mask.mean(), "mask_labelled": kept.mean()},
            pseudo_labels={"one_hot": pseudo},
        )

    def pseudo_labels(self, weak: Outputs, index: Tensor) -> dict[str, PseudoLabels]:
        return {"one_hot": one_hot_pseudo_labels(weak.logits, index, self.policy)}


def signal_limit(schedule: Schedule, fraction: float, classes: int) -> float:
    """eta_t = alpha_t (1 - 1/K) + 1/K: from 1/K at the start of the run to 1 at its end; always 1 without annealing."""
    match schedule:
        case "none":
            alpha = 1.0
        case "log":
            alpha = 1.0 - math.exp(-5.0 * fraction)
        case "linear":
            alpha = fraction
        case "exp":
            alpha = math.exp(5.0 * (fraction - 1.0))
    return alpha * (1.0 - 1.0 / classes) + 1.0 / classes


def annealed_cross_entropy(logits: Tensor, labels: Tensor, limit: float) -> tuple[Tensor, Tensor]:
    """Mean cross-entropy () over the images whose correct class is at most ``limit`` likely, and which (B,)."""
    losses = cross_entropy(logits, labels)
    kept = ((-losses.detach()).exp() <= limit).to(losses.dtype)
    share = mean_across(kept.mean()).clamp(min=torch.finfo(kept.dtype).tiny)
    return masked_mean(losses, kept) / share, kept
