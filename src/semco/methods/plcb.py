"""PLCB: pseudo-labelling and confirmation bias (Arazo et al. 2019).

Shapes: B labelled images, U unlabelled images, N images of the unlabelled pool, K classes.
"""

from __future__ import annotations

import math

import torch
from pydantic import Field
from torch import Tensor

from semco.config import MethodConfig, Unit
from semco.data.mixing import beta_weights, mix, permutation
from semco.losses import entropy, soft_cross_entropy
from semco.methods.base import Forward, Method
from semco.pseudo_labels import one_hot_rows, soft_pseudo_labels
from semco.types import Batch, Progress, StepResult, Task, ViewCounts


class PLCBConfig(MethodConfig):
    name: str = "plcb"
    lambda_a: float = Field(default=0.8, ge=0)
    """Weight of the regulariser that makes the network predict all classes."""
    lambda_h: float = Field(default=0.4, ge=0)
    """Weight of the regulariser that makes each prediction certain."""
    alpha: float = Field(default=4.0, ge=0)
    """Parameter of mixup's Beta distribution; 0 turns mixing off."""
    warm_up: Unit = 0.1
    """Fraction of the run that trains on labelled images only (the paper: 10 passes over them)."""


class PLCB(Method[PLCBConfig]):
    """The last prediction on an image is its soft label; mixup counters confirmation bias."""

    name = "plcb"
    title = "PLCB (Arazo et al. 2019)"
    Config = PLCBConfig
    views = ViewCounts(labelled_weak=1, unlabelled_weak=1)
    changes_images = True
    per_image_buffers = ("soft_labels",)
    soft_labels: Tensor  # (N, K), the prediction at the last visit; 0 before the first

    def __init__(self, config: PLCBConfig, task: Task) -> None:
        super().__init__(config, task)
        self.register_buffer("soft_labels", torch.zeros(task.pool_size, task.num_classes))

    def compute(self, batch: Batch, forward: Forward, progress: Progress) -> StepResult:
        weak, generator = batch.unlabelled.weak[0], progress.generator
        # Without gradient but with statistics: the running statistics must include images that are not mixed.
        with torch.no_grad():
            probabilities = forward(weak=weak)["weak"].logits.softmax(dim=-1)  # (U, K)
        pseudo = self.relabel(batch.unlabelled_index, probabilities)
        labels = one_hot_rows(batch.class_ids, probabilities.shape[-1], pseudo.dtype)
        images, targets = batch.labelled.weak[0], labels
        if progress.fraction >= self.config.warm_up:
            images, targets = torch.cat([images, weak]), torch.cat([labels, pseudo])  # (B + U, ...)
        weight = beta_weights(1, self.config.alpha, images, generator)  # (1,), the same for the whole step
        partner = permutation(len(images), images.device, generator)
        mixed = forward(mixed=mix(images, images[partner], weight))["mixed"].logits
        return StepResult(
            losses={
                "mixup": soft_cross_entropy(mixed, mix(targets, targets[partner], weight)).mean(),  # Eq. 6
                "all_classes": class_divergence(mixed, progress),  # Eq. 2
                "entropy": entropy(mixed).mean(),  # Eq. 3
            },
            weights={"all_classes": self.config.lambda_a, "entropy": self.config.lambda_h},
            pseudo_labels={"one_hot": soft_pseudo_labels(pseudo)},
        )

    def relabel(self, index: Tensor, probabilities: Tensor) -> Tensor:
        """Return the current soft labels (U, K) of images (U,); at the next visit they are ``probabilities``."""
        labels = self.soft_labels[index].to(probabilities.dtype)
        labels = torch.where(labels.sum(dim=-1, keepdim=True) > 0, labels, probabilities)  # on a first visit
        self.soft_labels[index] = probabilities.to(self.soft_labels.dtype)
        return labels


def class_divergence(logits: Tensor, progress: Progress) -> Tensor:
    """Return R_A = sum_c p_c log(p_c / h_c), with p uniform and h the mean softmax of logits (N, K): ()."""
    own = logits.log_softmax(dim=-1).logsumexp(dim=0) - math.log(len(logits))  # (K,), log h of this process
    most = progress.gather(own.detach()[None]).amax(dim=0)  # avoids underflow of the exponentials
    mean = progress.mean((own - most).exp()).log() + most
    return -math.log(logits.shape[-1]) - mean.mean()
