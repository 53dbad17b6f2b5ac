"""Label Propagation for Deep Semi-supervised Learning (Iscen et al. 2019).

Shapes: B labelled images, U unlabelled images, N images of the whole training set, K classes.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from pydantic import Field, PositiveFloat
from torch import Tensor

from semco.config import MethodConfig, Unit
from semco.losses import cross_entropy, masked_mean
from semco.methods.base import Forward, Method, Pool
from semco.pseudo_labels.propagation import affinity_graph, certain_labels, class_weights, diffuse
from semco.types import Batch, Outputs, Progress, PseudoLabels, StepResult, Task, ViewCounts


class LabelPropagationConfig(MethodConfig):
    name: str = "label_propagation"
    lambda_u: float = Field(default=1.0, ge=0)
    """Weight of the loss on unlabelled images."""
    neighbours: int = Field(default=50, ge=1)
    """Number of neighbours of an image in the graph."""
    gamma: PositiveFloat = 3.0
    """Power of the cosine between neighbours."""
    alpha: float = Field(default=0.99, ge=0, lt=1)
    """How far labels spread, from 0 to below 1."""
    iterations: int = Field(default=20, ge=1)
    """Iterations of the solver."""
    warmup: Unit = 0.25
    """Fraction of the run that trains on labelled images only, until the features are good enough for a graph."""


class LabelPropagation(Method[LabelPropagationConfig]):
    """At regular intervals labels spread to neighbours in feature space; they are weighted by their certainty."""

    name = "label_propagation"
    title = "Label Propagation (Iscen et al. 2019)"
    Config = LabelPropagationConfig
    views = ViewCounts(labelled_weak=1, unlabelled_weak=1)
    per_image_buffers = ("propagated", "certainty")
    propagated: Tensor  # (pool,) int64, labels of the unlabelled images
    certainty: Tensor  # (pool,), omega; 0 before the first propagation
    balance: Tensor  # (K,), zeta

    def __init__(self, config: LabelPropagationConfig, task: Task) -> None:
        super().__init__(config, task)
        self.register_buffer("propagated", torch.zeros(task.pool_size, dtype=torch.int64))
        self.register_buffer("certainty", torch.zeros(task.pool_size))
        self.register_buffer("balance", torch.ones(task.num_classes))

    def refresh(self, pool: Pool, progress: Progress) -> None:
        if progress.fraction < self.config.warmup:
            return
        labelled, labels = pool.labelled().features, pool.class_ids
        features = torch.cat([labelled, pool.unlabelled().features])
        graph = affinity_graph(features, self.config.neighbours, self.config.gamma)
        seeds = F.pad(F.one_hot(labels, len(self.balance)).to(features), (0, 0, 0, len(self.certainty)))  # (N, K)
        spread = diffuse(graph, seeds, self.config.alpha, self.config.iterations)
        propagated, certainty = certain_labels(spread[len(labelled) :])
        self.propagated.copy_(propagated)
        # NOTE: relative to the most certain image, as in the authors' code; labels that spread far are hardly certain.
        self.certainty.copy_(certainty / certainty.max().clamp(min=torch.finfo(certainty.dtype).tiny))
        self.balance.copy_(class_weights(torch.cat([labels, propagated]), len(self.balance)))

    def compute(self, batch: Batch, forward: Forward, progress: Progress) -> StepResult:
        labelled, unlabelled_view = batch.labelled.weak[0], batch.unlabelled.weak[0]
        is_warming_up = progress.fraction < self.config.warmup
        outputs = (
            forward(labelled=labelled) if is_warming_up else forward(labelled=labelled, unlabelled=unlabelled_view)
        )
        # NOTE: not weighted by class, unlike Eq. 12: a class that no label reached would dominate all others.
        supervised = cross_entropy(outputs["labelled"].logits, batch.class_ids).mean()
        pseudo = self._propagated(batch.unlabelled_index)
        unlabelled = supervised.new_zeros(())
        if not is_warming_up:
            losses = cross_entropy(outputs["unlabelled"].logits, pseudo.class_ids)
            unlabelled = masked_mean(losses, pseudo.weights * self.balance[pseudo.class_ids])
        return StepResult(
            losses={"supervised": supervised, "unlabelled": unlabelled},
            weights={"unlabelled": self.config.lambda_u},
            metrics={"mask_one_hot": pseudo.weights.mean()},
            pseudo_labels={"one_hot": pseudo},
        )

    def pseudo_labels(self, weak: Outputs, index: Tensor) -> dict[str, PseudoLabels]:  # noqa: ARG002
        return {"one_hot": self._propagated(index)}

    def _propagated(self, index: Tensor) -> PseudoLabels:
        certainty = self.certainty[index]
        return PseudoLabels(class_ids=self.propagated[index], weights=certainty, confidence=certainty)
