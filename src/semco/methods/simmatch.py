"""SimMatch: Semi-Supervised Learning With Similarity Matching (Zheng et al. 2022).

Shapes: N images of a view, B labelled images of a step, U unlabelled images, F features, K classes, L labelled images
in total, e = 128 dimensions of an instance embedding.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from pydantic import Field, PositiveFloat
from torch import Tensor, nn

from semco.config import MethodConfig, Unit
from semco.losses import cross_entropy, masked_mean, soft_cross_entropy
from semco.methods.base import Forward, Method
from semco.pseudo_labels.alignment import DistributionAlignment
from semco.pseudo_labels.one_hot import soft_pseudo_labels
from semco.types import Batch, Progress, StepResult, Task, ViewCounts

INSTANCE_SIZE = 128
# Number of steps over which the mean prediction is taken, as the authors do for CIFAR-100.
ALIGNMENT_STEPS = 32
# In the labels of the bank: this labelled image has not been seen yet.
NEVER = -1


class SimMatchConfig(MethodConfig):
    name: str = "simmatch"
    lambda_u: float = Field(default=1.0, ge=0)
    """Weight of the class loss on unlabelled images."""
    lambda_in: float = Field(default=1.0, ge=0)
    """Weight of the instance loss."""
    tau: Unit = 0.95
    """Threshold: the confidence from which a class target counts."""
    temperature: PositiveFloat = 0.1
    """Temperature of similarities between instances."""
    smoothing: Unit = 0.9
    """Fraction of the head's own prediction in the class target; the rest comes from similar labelled images."""
    warm_up: Unit = 0.1
    """Fraction of the run without the instance loss, until the instance embeddings are meaningful."""
    bank_momentum: Unit = 0.7
    """Momentum of an image's embedding in the memory bank."""


class SimMatch(Method[SimMatchConfig]):
    """Weak and strong view agree on the class and on which labelled images they resemble."""

    name = "simmatch"
    title = "SimMatch (Zheng et al. 2022)"
    Config = SimMatchConfig
    views = ViewCounts(labelled_weak=1, unlabelled_weak=1, unlabelled_strong=1)
    bank: Tensor  # (L, e), embeddings of the labelled images, of any length
    bank_labels: Tensor  # (L,) int64

    def __init__(self, config: SimMatchConfig, task: Task) -> None:
        super().__init__(config, task)
        count, features = int(task.labelled_counts.sum()), task.num_features
        self.project = nn.Sequential(nn.Linear(features, features), nn.ReLU(), nn.Linear(features, INSTANCE_SIZE))
        self.alignment = DistributionAlignment(torch.ones(task.num_classes), ALIGNMENT_STEPS)
        self.register_buffer("bank", torch.zeros(count, INSTANCE_SIZE))
        self.register_buffer("bank_labels", torch.full((count,), NEVER))

    def compute(self, batch: Batch, forward: Forward, progress: Progress) -> StepResult:
        outputs = forward(
            labelled=batch.labelled.weak[0],
            strong=batch.unlabelled.strong[0],
            no_grad={"weak": batch.unlabelled.weak[0]},
        )
        labelled, strong, weak = outputs["labelled"], outputs["strong"], outputs["weak"]
        is_warming_up = progress.fraction < self.config.warm_up
        with torch.no_grad():
            self._update_bank(self.project(labelled.features), batch, progress)
            classes = self.alignment(weak.logits.softmax(dim=-1))
            instances = self._similarities(weak.features).softmax(dim=-1)
            smoothing = 1.0 if is_warming_up else self.config.smoothing
            target, instance_target = propagate(classes, instances, self.bank_labels, smoothing)
            pseudo = soft_pseudo_labels(target, target.amax(dim=-1) >= self.config.tau)
        instance_errors = soft_cross_entropy(self._similarities(strong.features), instance_target)
        return StepResult(
            losses={
                "supervised": cross_entropy(labelled.logits, batch.class_ids).mean(),
                "unlabelled": masked_mean(soft_cross_entropy(strong.logits, target), pseudo.weights),
                "instances": instance_errors.mean(),
            },
            weights={"unlabelled": self.config.lambda_u, "instances": 0.0 if is_warming_up else self.config.lambda_in},
            metrics={"mask_one_hot": pseudo.weights.mean()},
            pseudo_labels={"one_hot": pseudo},
        )

    def _similarities(self, features: Tensor) -> Tensor:
        """Return cosines with the bank divided by the temperature (N, L), very small for images not seen yet."""
        cosines = F.normalize(self.project(features), dim=-1) @ F.normalize(self.bank, dim=-1).T
        least = torch.finfo(cosines.dtype).min
        return (cosines / self.config.temperature).masked_fill(self.bank_labels == NEVER, least)

    def _update_bank(self, embeddings: Tensor, batch: Batch, progress: Progress) -> None:
        """Move the bank towards the embeddings (B, e) of this step; an image that occurs twice counts by its mean."""
        index, class_ids = progress.gather(batch.labelled_index), progress.gather(batch.class_ids)
        unit = F.normalize(progress.gather(embeddings), dim=-1)
        sums = torch.zeros_like(self.bank).index_add_(0, index, unit)
        moved = F.normalize(self.bank, dim=-1) * self.config.bank_momentum
        moved = moved + (1 - self.config.bank_momentum) * F.normalize(sums, dim=-1)
        seen = torch.zeros_like(self.bank_labels).index_fill_(0, index, 1)[:, None] == 1
        self.bank.copy_(torch.where(seen, moved, self.bank))
        self.bank_labels[index] = class_ids


def propagate(classes: Tensor, instances: Tensor, bank_labels: Tensor, smoothing: float) -> tuple[Tensor, Tensor]:
    """Return class targets (N, K) and instance targets (N, L) from p (N, K), q (N, L) and the bank's labels (L,).

    Unfolding (Eq. 9): an instance of class k is weighted by p_k. Aggregation (Eq. 10, 11): a class gets the sum of its
    instances, with weight 1 - smoothing.
    """
    known = (bank_labels != NEVER).to(classes.dtype)
    labels = bank_labels.clamp(min=0)
    unfolded = instances * classes[:, labels] * known
    aggregated = torch.zeros_like(classes).index_add_(1, labels, instances * known)
    total = unfolded.sum(dim=-1, keepdim=True).clamp(min=torch.finfo(unfolded.dtype).tiny)
    return smoothing * classes + (1 - smoothing) * aggregated, unfolded / total
