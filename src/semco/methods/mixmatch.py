"""MixMatch: a holistic approach to semi-supervised learning (Berthelot et al. 2019b).

Shapes: B labelled images, U unlabelled images, V views of each, K classes.
"""

from __future__ import annotations

import torch
from pydantic import Field, PositiveFloat

from semco.config import MethodConfig
from semco.data.mixing import mixmatch_mixup
from semco.losses import soft_cross_entropy, squared_error
from semco.methods.base import Forward, Method, ramp_over_steps
from semco.pseudo_labels import one_hot_rows, sharpen, soft_pseudo_labels
from semco.types import Batch, Progress, StepResult, Task, ViewCounts


class MixMatchConfig(MethodConfig):
    name: str = "mixmatch"
    lambda_u: float = Field(default=75.0, ge=0)
    """Final weight of the unlabelled loss (CIFAR-10: 75, CIFAR-100: 150)."""
    ramp_up_steps: int = Field(default=16_384, ge=0)
    """Steps over which the weight grows, or the whole run if it is shorter (the authors: 16,384 of 2^20)."""
    temperature: PositiveFloat = 0.5
    """Temperature of sharpening; 1 turns sharpening off."""
    alpha: float = Field(default=0.75, ge=0)
    """Parameter of mixup's Beta distribution; 0 turns mixing off."""
    guesses: int = Field(default=2, ge=1)
    """Weak views per unlabelled image whose predictions are averaged: K of the paper."""


class MixMatch(Method[MixMatchConfig]):
    """Sharpened mean predictions are the targets of unlabelled images, and all images are mixed with each other."""

    name = "mixmatch"
    title = "MixMatch (Berthelot et al. 2019)"
    Config = MixMatchConfig
    views = ViewCounts(labelled_weak=1, unlabelled_weak=2)
    changes_images = True

    def __init__(self, config: MixMatchConfig, task: Task) -> None:
        super().__init__(config, task)
        self.classes = task.num_classes
        self.views = ViewCounts(labelled_weak=1, unlabelled_weak=config.guesses)

    def compute(self, batch: Batch, forward: Forward, progress: Progress) -> StepResult:
        weak, size = batch.unlabelled.weak, len(batch.class_ids)
        outputs = forward(no_grad={f"weak_{i}": view for i, view in enumerate(weak)})
        guess = torch.stack([view.logits.softmax(dim=-1) for view in outputs.values()]).mean(dim=0)  # (U, K), Eq. 6
        sharp = sharpen(guess, self.config.temperature)  # Eq. 7
        labels = one_hot_rows(batch.class_ids, self.classes, sharp.dtype)
        images = torch.cat([batch.labelled.weak[0], *weak])  # (B + V U, C, H, W)
        targets = torch.cat([labels, sharp.repeat(len(weak), 1)])  # (B + V U, K)
        mixed, mixed_targets = mixmatch_mixup(images, targets, self.config.alpha, progress.generator)
        logits = forward(mixed=mixed)["mixed"].logits
        unlabelled = logits[size:].softmax(dim=-1)
        return StepResult(
            losses={
                "supervised": soft_cross_entropy(logits[:size], mixed_targets[:size]).mean(),  # Eq. 3
                "unlabelled": squared_error(unlabelled, mixed_targets[size:]).mean(),  # Eq. 4
            },
            weights={"unlabelled": self.config.lambda_u * ramp_over_steps(progress, self.config.ramp_up_steps)},
            pseudo_labels={"one_hot": soft_pseudo_labels(sharp)},
        )
