"""ProtoCon: Pseudo-label Refinement via Online Clustering and Prototypical Consistency (Nassar et al. 2023).

Shapes: B labelled images, U unlabelled images, F features, K classes, e = 64 dimensions of a projection.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from pydantic import Field, PositiveFloat
from torch import Tensor, nn

from semco.config import Unit
from semco.losses import cross_entropy, masked_mean, soft_cross_entropy
from semco.methods.base import Forward, Method, Pool
from semco.methods.fixmatch import ConsistencyConfig
from semco.pseudo_labels import soft_pseudo_labels
from semco.pseudo_labels.alignment import SMALLEST
from semco.pseudo_labels.clusters import OnlineClusters
from semco.pseudo_labels.prototypes import RunningPrototypes
from semco.pseudo_labels.thresholds import RunningRate
from semco.types import Batch, Outputs, Progress, PseudoLabels, StepResult, Task, ViewCounts

PROJECTION_SIZE = 64
# Constants of the authors' code: slope of the projector, sharpening and centring of consistency targets, debiasing.
LEAK, SHARPER, CENTRE_DECAY, PRIOR_DECAY = 0.1, 5.0, 0.9, 0.999
# Images per cluster at least, and the longest warm-up as a fraction of the run. NOTE: both are for small data and short
# runs; the authors have 200 images per cluster and 5,001 passes.
IMAGES_PER_CLUSTER, LONGEST_WARM_UP = 10, 0.5
# The projector is trained after the first pass over the pool, or this fraction of the run: before, there are no
# prototypes, and consistency alone would give all images the same projection.
COLLECTING = 0.1


class ProtoConConfig(ConsistencyConfig):
    name: str = "protocon"
    lambda_p: float = Field(default=1.0, ge=0)
    """Weight of the prototypical loss."""
    lambda_c: float = Field(default=1.0, ge=0)
    """Weight of the consistency loss on images below the threshold."""
    tau: Unit = 0.95
    """Threshold: the confidence from which a refined pseudo-label is retained."""
    alpha: Unit = 0.8
    """Fraction of the head's own prediction in a pseudo-label; the rest is the label of the image's cluster."""
    clusters: int = Field(default=250, ge=1)
    """Number of clusters of the pool, at most a tenth of its images."""
    temperature: PositiveFloat = 0.1
    """Temperature of projections."""
    debias: float = Field(default=0.5, ge=0)
    """How much of the log mean prediction is subtracted before pseudo-labels are made (DebiasPL); 0 turns it off."""
    warm_up_passes: float = Field(default=20, ge=0)
    """Passes over the pool without refinement, at most half of the run."""


class ProtoCon(Method[ProtoConConfig]):
    """Pseudo-labels are refined by the labels of an image's cluster, in a space shaped by class prototypes."""

    name = "protocon"
    title = "ProtoCon (Nassar et al. 2023)"
    Config = ProtoConConfig
    views = ViewCounts(labelled_weak=1, unlabelled_weak=1, unlabelled_strong=1)
    prior: Tensor  # (K,), running mean prediction
    centre: Tensor  # (e,), running mean of the consistency targets

    def __init__(self, config: ProtoConConfig, task: Task) -> None:
        super().__init__(config, task)
        width, classes, size = task.num_features, task.num_classes, PROJECTION_SIZE
        self.project = nn.Sequential(nn.Linear(width, width), nn.LeakyReLU(LEAK), nn.Linear(width, size))
        count = max(1, min(config.clusters, task.pool_size // IMAGES_PER_CLUSTER))
        self.clusters = OnlineClusters((count, size, classes), task.pool_size)
        self.prototypes = RunningPrototypes(classes, size)
        self.rate = RunningRate(PRIOR_DECAY, warmup=True)
        self.register_buffer("prior", torch.full((classes,), 1.0 / classes))
        self.register_buffer("centre", torch.zeros(size))

    def refresh(self, pool: Pool, progress: Progress) -> None:  # noqa: ARG002
        self.clusters.relabel()
        self.prototypes.renew()

    def compute(self, batch: Batch, forward: Forward, progress: Progress) -> StepResult:
        outputs = forward(
            labelled=batch.labelled.weak[0],
            strong=batch.unlabelled.strong[0],
            no_grad={"weak": batch.unlabelled.weak[0]},
        )
        labelled, weak, strong = outputs["labelled"], outputs["weak"], outputs["strong"]
        q_labelled, q_strong = self._projections(labelled.features), self._projections(strong.features)
        with torch.no_grad():
            q_weak = self._projections(weak.features)
            everywhere = progress.gather(batch.unlabelled_index)
            passes = progress.step * len(everywhere) / len(self.clusters.cluster)
            is_collecting = passes < 1 and progress.fraction < COLLECTING
            is_warming_up = passes < self.config.warm_up_passes and progress.fraction < LONGEST_WARM_UP
            target = self._targets(weak.logits, q_weak, 1.0 if is_warming_up else self.config.alpha)  # (U, K)
            pseudo = soft_pseudo_labels(target, target.amax(dim=-1) >= self.config.tau)
            consistent = ((q_weak - self.centre) * SHARPER / self.config.temperature).softmax(dim=-1)  # (U, e)
            self.centre.lerp_(progress.gather(consistent).mean(dim=0), 1 - CENTRE_DECAY)
            self.prior.lerp_(progress.gather(weak.logits).softmax(dim=-1).mean(dim=0), self.rate())
            weak_rows, class_ids = progress.gather(q_weak), progress.gather(pseudo.class_ids)
            self.clusters.update(weak_rows, everywhere, class_ids)
            self.prototypes.add(progress.gather(q_labelled), progress.gather(batch.class_ids))
            self.prototypes.add(weak_rows * progress.gather(pseudo.weights)[:, None], class_ids)
        debiased = strong.logits + self._bias()
        of_classes = self.prototypes.vectors.T / self.config.temperature  # (e, K)
        to_prototypes = masked_mean(soft_cross_entropy(q_strong @ of_classes, target), pseudo.weights)
        to_consistent = soft_cross_entropy(q_strong / self.config.temperature, consistent)
        return StepResult(
            losses={
                "supervised": cross_entropy(labelled.logits, batch.class_ids).mean(),
                "unlabelled": masked_mean(soft_cross_entropy(debiased, target), pseudo.weights),
                "prototypes": cross_entropy(q_labelled @ of_classes, batch.class_ids).mean() + to_prototypes,
                "consistency": masked_mean(to_consistent, 1 - pseudo.weights),
            },
            weights={
                "unlabelled": self.config.lambda_u,
                "prototypes": 0.0 if is_collecting else self.config.lambda_p,
                "consistency": 0.0 if is_collecting else self.config.lambda_c,
            },
            metrics={"mask_one_hot": pseudo.weights.mean()},
            pseudo_labels={"one_hot": pseudo},
        )

    def pseudo_labels(self, weak: Outputs, index: Tensor) -> dict[str, PseudoLabels]:  # noqa: ARG002
        target = self._targets(weak.logits, self._projections(weak.features), self.config.alpha)
        return {"one_hot": soft_pseudo_labels(target, target.amax(dim=-1) >= self.config.tau)}

    def _projections(self, features: Tensor) -> Tensor:
        """Return unit vectors (n, e) of features (n, F)."""
        return F.normalize(self.project(features), dim=-1)

    def _targets(self, logits: Tensor, projections: Tensor, alpha: float) -> Tensor:
        """Return alpha p + (1 - alpha) z, p (U, K) the debiased predictions and z the labels of the clusters."""
        own = (logits - self._bias()).softmax(dim=-1)
        _, cluster = self.clusters.assign(projections)
        return alpha * own + (1 - alpha) * self.clusters.labels[cluster]

    def _bias(self) -> Tensor:
        """Return how much the logits of each class are too large, (K,)."""
        return self.config.debias * self.prior.clamp(min=SMALLEST).log()
