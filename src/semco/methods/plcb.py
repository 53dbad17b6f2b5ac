"""PLCB: pseudo-labelling and confirmation bias (Arazo et al. 2019).

Shapes: B labelled images, U unlabelled images, N images of the unlabelled pool, K classes.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from semco.across import mean_across, rows_across
from semco.config import MethodConfig, Unit
from semco.losses import entropy, soft_cross_entropy
from semco.methods.base import Forward, Method
from semco.methods.mixing import beta_weights, mix, permutation
from semco.pseudo_labels import soft_pseudo_labels
from semco.types import Batch, Progress, StepResult, Task, ViewCounts


class PLCBConfig(MethodConfig):
    name: str = "plcb"
    lambda_a: float = Field(default=0.8, ge=0)
    """Weight of the regulariser by which all classes are predicted."""
    lambda_h: float = Field(default=0.4, ge=0)
    """Weight of the regulariser by which each prediction is certain."""
    alpha: float = Field(default=4.0, ge=0)
    """Parameter of mixup's Beta distribution; 0 does not mix."""
    warm_up: Unit = 0.1
    """Part of the run at the beginning in which only labelled images train (the paper: 10 passes over them)."""


class PLCB(Method[PLCBConfig]):
    """What the network last said of an image, in all its doubt, is the image's label; mixup keeps it from believing."""

    name = "plcb"
    title = "PLCB (Arazo et al. 2019)"
    Config = PLCBConfig
    views = ViewCounts(labelled_weak=1, unlabelled_weak=1)
    per_image_buffers = ("soft_labels",)
    soft_labels: Tensor  # (N, K), what was said at the last visit; 0 before the first

    def __init__(self, config: PLCBConfig, task: Task) -> None:
        super().__init__(config, task)
        self.register_buffer("soft_labels", torch.zeros(task.pool_size, task.num_classes))

    def compute(self, batch: Batch, forward: Forward, progress: Progress) -> StepResult:
        weak, generator = batch.unlabelled.weak[0], progress.generator
        # An ordinary pass but for the gradient: the running statistics must know of images that are not mixed.
        with torch.no_grad():
            said = forward(weak=weak)["weak"].logits.softmax(dim=-1)  # (U, K)
        pseudo = self.relabel(batch.unlabelled_index, said)
        labels = F.one_hot(batch.labels, said.shape[-1]).to(pseudo.dtype)
        images, targets = batch.labelled.weak[0], labels
        if progress.fraction >= self.config.warm_up:
            images, targets = torch.cat([images, weak]), torch.cat([labels, pseudo])  # (B + U, ...)
        weight = beta_weights(1, self.config.alpha, images, generator)  # (1,), the same for the whole step
        partner = permutation(len(images), images.device, generator)
        mixed = forward(mixed=mix(images, images[partner], weight))["mixed"].logits
        return StepResult(
            losses={
                "mixup": soft_cross_entropy(mixed, mix(targets, targets[partner], weight)).mean(),  # Eq. 6
                "all_classes": class_divergence(mixed),  # Eq. 2
                "entropy": entropy(mixed).mean(),  # Eq. 3
            },
            weights={"all_classes": self.config.lambda_a, "entropy": self.config.lambda_h},
            pseudo_labels={"one_hot": soft_pseudo_labels(pseudo)},
        )

    def relabel(self, index: Tensor, said: Tensor) -> Tensor:
        """The labels of images (U,) that stand now, (U, K); from the next visit on they are what was ``said``."""
        labels = self.soft_labels[index].to(said.dtype)
        labels = torch.where(labels.sum(dim=-1, keepdim=True) > 0, labels, said)  # on a first visit
        self.soft_labels[index] = said.to(self.soft_labels.dtype)
        return labels


def class_divergence(logits: Tensor) -> Tensor:
    """R_A = sum_c p_c log(p_c / h_c), p uniform and h the mean softmax of logits (N, K) -> ()."""
    own = logits.log_softmax(dim=-1).logsumexp(dim=0) - math.log(len(logits))  # (K,), log h of this process
    most = rows_across(own.detach()[None]).amax(dim=0)  # keeps the exponentials from vanishing
    mean = mean_across((own - most).exp()).log() + most
    return -math.log(logits.shape[-1]) - mean.mean()
