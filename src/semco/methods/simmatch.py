"""SimMatch: Semi-Supervised Learning With Similarity Matching (Zheng et al. 2022).

Shapes: N images of a view, B labelled images of a step, U unlabelled images, F features, K classes, L labelled images
in all, e = 128 numbers of an instance embedding.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from pydantic import Field, PositiveFloat
from torch import Tensor, nn

from semco.across import rows_across
from semco.config import MethodConfig, Unit
from semco.losses import cross_entropy, masked_mean, soft_cross_entropy
from semco.methods.base import Forward, Method
from semco.pseudo_labels.alignment import DistributionAlignment
from semco.pseudo_labels.one_hot import soft_pseudo_labels
from semco.types import Batch, Progress, StepResult, Task, ViewCounts

INSTANCE_SIZE = 128
# Over which the mean prediction is taken, as the authors do for CIFAR-100.
ALIGNMENT_STEPS = 32
# In the labels of the bank: this labelled image has not been seen yet.
NEVER = -1


class SimMatchConfig(MethodConfig):
    name: str = "simmatch"
    lambda_u: float = Field(default=1.0, ge=0)
    """Weight of the loss on classes of unlabelled images."""
    lambda_in: float = Field(default=1.0, ge=0)
    """Weight of the loss on instances."""
    tau: Unit = 0.95
    """Confidence from which a class target counts."""
    temperature: PositiveFloat = 0.1
    """Temperature of similarities between instances."""
    smoothing: Unit = 0.9
    """Part of the head's own opinion in the class target; the rest is that of similar labelled images."""
    warm_up: Unit = 0.1
    """Part of the run at the beginning in which instances have no say: their embeddings say nothing yet."""
    bank_momentum: Unit = 0.7
    """What the bank keeps of an image's embedding when it is seen again."""


class SimMatch(Method[SimMatchConfig]):
    """Strong and weak view agree on the class, and on which labelled images they resemble; each corrects the other."""

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
        warming_up = progress.fraction < self.config.warm_up
        with torch.no_grad():
            self._remember(self.project(labelled.features), batch)
            classes = self.alignment(weak.logits.softmax(dim=-1))
            instances = self._similarities(weak.features).softmax(dim=-1)
            smoothing = 1.0 if warming_up else self.config.smoothing
            target, instance_target = propagate(classes, instances, self.bank_labels, smoothing)
            pseudo = soft_pseudo_labels(target, target.amax(dim=-1) >= self.config.tau)
        resembling = soft_cross_entropy(self._similarities(strong.features), instance_target)
        return StepResult(
            losses={
                "supervised": cross_entropy(labelled.logits, batch.labels).mean(),
                "unlabelled": masked_mean(soft_cross_entropy(strong.logits, target), pseudo.mask),
                "instances": resembling.mean(),
            },
            weights={"unlabelled": self.config.lambda_u, "instances": 0.0 if warming_up else self.config.lambda_in},
            metrics={"mask_one_hot": pseudo.mask.mean()},
            pseudo_labels={"one_hot": pseudo},
        )

    def _similarities(self, features: Tensor) -> Tensor:
        """Cosines with the bank over the temperature (N, L); finite but out of the game for images not seen yet."""
        cosines = F.normalize(self.project(features), dim=-1) @ F.normalize(self.bank, dim=-1).T
        least = torch.finfo(cosines.dtype).min
        return (cosines / self.config.temperature).masked_fill(self.bank_labels == NEVER, least)

    def _remember(self, embeddings: Tensor, batch: Batch) -> None:
        """Move the bank's rows towards embeddings (B, e) of this step's images, the mean where one is there twice."""
        index, labels = rows_across(batch.labelled_index), rows_across(batch.labels)
        unit = F.normalize(rows_across(embeddings), dim=-1)
        sums = torch.zeros_like(self.bank).index_add_(0, index, unit)
        moved = F.normalize(self.bank, dim=-1) * self.config.bank_momentum
        moved = moved + (1 - self.config.bank_momentum) * F.normalize(sums, dim=-1)
        seen = torch.zeros_like(self.bank_labels).index_fill_(0, index, 1)[:, None] == 1
        self.bank.copy_(torch.where(seen, moved, self.bank))
        self.bank_labels[index] = labels


def propagate(classes: Tensor, instances: Tensor, bank_labels: Tensor, smoothing: float) -> tuple[Tensor, Tensor]:
    """Class targets (N, K) and instance targets (N, L) from p (N, K), q (N, L) and the bank's labels (L,).

    Unfolding (Eq. 9): an instance of class k is weighted by p_k. Aggregation (Eq. 10, 11): a class is as likely as its
    instances together, by the part of 1 - smoothing.
    """
    known = (bank_labels != NEVER).to(classes.dtype)
    labels = bank_labels.clamp(min=0)
    unfolded = instances * classes[:, labels] * known
    aggregated = torch.zeros_like(classes).index_add_(1, labels, instances * known)
    total = unfolded.sum(dim=-1, keepdim=True).clamp(min=torch.finfo(unfolded.dtype).tiny)
    return smoothing * classes + (1 - smoothing) * aggregated, unfolded / total
