"""Temporal Ensembling (Laine & Aila 2017, Alg. 2).

Shapes: B labelled images, U unlabelled images, N images of the unlabelled pool, K classes.
"""

from __future__ import annotations

import torch
from pydantic import Field
from torch import Tensor

from semco.config import MethodConfig, Unit
from semco.losses import cross_entropy, masked_mean, squared_error
from semco.methods.base import Forward, Method, sigmoid_ramp
from semco.pseudo_labels import soft_pseudo_labels
from semco.types import Batch, Progress, StepResult, Task, ViewCounts


class TemporalEnsemblingConfig(MethodConfig):
    name: str = "temporal_ensembling"
    lambda_u: float = Field(default=30.0, ge=0)
    """Final weight of the consistency loss, which is a mean over unlabelled images."""
    ramp_up: Unit = 80 / 300
    """Fraction of the run over which the weight grows (80 of 300 epochs)."""
    momentum: float = Field(default=0.6, ge=0, lt=1)
    """Momentum of the ensemble of predictions."""


class TemporalEnsembling(Method[TemporalEnsemblingConfig]):
    """A prediction learns from the average of earlier predictions on the same image."""

    name = "temporal_ensembling"
    title = "Temporal Ensembling (Laine & Aila 2017)"
    Config = TemporalEnsemblingConfig
    views = ViewCounts(labelled_weak=1, unlabelled_weak=1)
    per_image_buffers = ("ensemble", "visits")
    ensemble: Tensor  # (N, K), Z: decaying sum of predictions
    visits: Tensor  # (N,) int64, number of predictions in it

    def __init__(self, config: TemporalEnsemblingConfig, task: Task) -> None:
        super().__init__(config, task)
        self.register_buffer("ensemble", torch.zeros(task.pool_size, task.num_classes))
        self.register_buffer("visits", torch.zeros(task.pool_size, dtype=torch.int64))

    def compute(self, batch: Batch, forward: Forward, progress: Progress) -> StepResult:
        outputs = forward(labelled=batch.labelled.weak[0], weak=batch.unlabelled.weak[0])
        z = outputs["weak"].logits.softmax(dim=-1)  # (U, K)
        target, known = self.targets(batch.unlabelled_index)
        self.remember(batch.unlabelled_index, z.detach())
        return StepResult(
            losses={
                "supervised": cross_entropy(outputs["labelled"].logits, batch.class_ids).mean(),
                "consistency": masked_mean(squared_error(z, target), known),
            },
            weights={"consistency": self.config.lambda_u * sigmoid_ramp(progress.fraction, self.config.ramp_up)},
            metrics={"known": known.mean()},
            pseudo_labels={"one_hot": soft_pseudo_labels(target, known)},
        )

    def targets(self, index: Tensor) -> tuple[Tensor, Tensor]:
        """Return z~ = Z / (1 - alpha^t) (U, K) for images (U,) with t visits, and 1 where t > 0, else 0: (U,)."""
        visits = self.visits[index]
        bias = 1.0 - self.config.momentum ** visits.clamp(min=1).to(self.ensemble.dtype)
        return self.ensemble[index] / bias[:, None], (visits > 0).to(self.ensemble.dtype)

    def remember(self, index: Tensor, z: Tensor) -> None:
        """Update Z <- alpha Z + (1 - alpha) z with predictions (U, K) of images (U,)."""
        alpha = self.config.momentum
        self.ensemble[index] = alpha * self.ensemble[index] + (1.0 - alpha) * z.to(self.ensemble.dtype)
        self.visits[index] = self.visits[index] + 1
