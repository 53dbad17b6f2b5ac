"""UDA: Unsupervised Data Augmentation for Consistency Training (Xie et al. 2020).

Shapes: B labelled images, U unlabelled images, K classes.
"""

from __future__ import annotations

import math
from typing import Literal

from pydantic import Field, PositiveFloat
from torch import Tensor

from semco.config import MethodConfig, Unit
from semco.losses import cross_entropy, masked_mean, retained_mean, soft_cross_entropy
from semco.methods.base import Forward, Method
from semco.pseudo_labels import FixedThreshold, one_hot_pseudo_labels
from semco.pseudo_labels.alignment import sharpen
from semco.types import Batch, Outputs, Progress, PseudoLabels, StepResult, Task, ViewCounts

Schedule = Literal["none", "log", "linear", "exp"]


class UDAConfig(MethodConfig):
    name: str = "uda"
    lambda_u: float = Field(default=1.0, ge=0)
    """Weight of the consistency loss."""
    temperature: PositiveFloat = 0.4
    """Temperature of the target; below 1 sharpens it."""
    tau: Unit = 0.8
    """Threshold: the confidence from which an unlabelled image is retained."""
    annealing: Schedule = "linear"
    """Training-signal annealing: how the probability limit grows above which a labelled image is left out."""


class UDA(Method[UDAConfig]):
    """The sharpened prediction on a weak view, if confident, is the target of a strong view; labelled images that are
    already learned well are left out at first, to avoid overfitting."""

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
        pseudo = one_hot_pseudo_labels(weak, self.policy)
        target = sharpen(weak.softmax(dim=-1), self.config.temperature)
        limit = signal_limit(self.config.annealing, progress.fraction, labelled.shape[-1])
        supervised, kept = annealed_cross_entropy(labelled, batch.class_ids, limit, progress)
        return StepResult(
            losses={
                "supervised": supervised,
                "unlabelled": masked_mean(soft_cross_entropy(outputs["strong"].logits, target), pseudo.weights),
            },
            weights={"unlabelled": self.config.lambda_u},
            metrics={"mask_one_hot": pseudo.weights.mean(), "mask_labelled": kept.mean()},
            pseudo_labels={"one_hot": pseudo},
        )

    def pseudo_labels(self, weak: Outputs, index: Tensor) -> dict[str, PseudoLabels]:  # noqa: ARG002
        return {"one_hot": one_hot_pseudo_labels(weak.logits, self.policy)}


def signal_limit(schedule: Schedule, fraction: float, classes: int) -> float:
    """Return eta_t = alpha_t (1 - 1/K) + 1/K: from 1/K at the start of the run to 1 at its end; 1 without annealing."""
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


def annealed_cross_entropy(
    logits: Tensor, class_ids: Tensor, limit: float, progress: Progress
) -> tuple[Tensor, Tensor]:
    """Return the mean cross-entropy () over images whose class has a probability of at most ``limit``.

    Also return 1 for these images and 0 for the others: (B,).
    """
    losses = cross_entropy(logits, class_ids)
    kept = ((-losses.detach()).exp() <= limit).to(losses.dtype)
    return retained_mean(losses, kept, progress), kept
