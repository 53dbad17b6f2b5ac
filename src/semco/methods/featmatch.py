"""FeatMatch: Feature-Based Augmentation for Semi-Supervised Learning (Kuo et al. 2020).

Shapes: N images of a view, B labelled images, U unlabelled images, F features, K classes, P prototypes per class,
H attention heads, a = F / H.
"""

from __future__ import annotations

import torch
from pydantic import Field, PositiveFloat
from torch import Tensor, nn

from semco.config import MethodConfig, Unit
from semco.losses import cross_entropy, soft_cross_entropy
from semco.methods.base import Forward, Method, Pool, linear_ramp
from semco.pseudo_labels.alignment import sharpen
from semco.pseudo_labels.one_hot import soft_pseudo_labels
from semco.pseudo_labels.prototypes import class_prototypes
from semco.types import Batch, Progress, StepResult, Task, ViewCounts


class FeatMatchConfig(MethodConfig):
    name: str = "featmatch"
    lambda_con: float = Field(default=0.5, ge=0)
    """Weight of the consistency loss on augmented features."""
    lambda_feature: float = Field(default=2.0, ge=0)
    """Weight of the consistency loss on plain features."""
    ramp: Unit = 0.7
    """Fraction of the run after which both weights have their full value."""
    temperature: PositiveFloat = 0.75
    """Temperature of the target."""
    prototypes: int = Field(default=20, ge=1)
    """Prototypes per class."""
    confidence: Unit = 0.5
    """Confidence from which an unlabelled image contributes to the prototypes."""
    attention_heads: int = Field(default=4, ge=1)
    """Number of attention heads."""


class FeatureAugmentation(nn.Module):
    """AugF: a feature attends to the prototypes of all classes."""

    def __init__(self, features: int, heads: int) -> None:
        super().__init__()
        self.width = max(1, features // heads)
        self.embed = nn.ModuleList(nn.Linear(features, self.width) for _ in range(heads))
        self.combine = nn.ModuleList(nn.Linear(2 * self.width, self.width) for _ in range(heads))
        self.out = nn.Linear(heads * self.width, features)

    def forward(self, features: Tensor, prototypes: Tensor, present: Tensor) -> Tensor:
        """Return augmented features (N, F) of features (N, F), prototypes (K * P, F) and their presence (K * P,)."""
        absent = present == 0
        attended = []
        for embed, combine in zip(self.embed, self.combine, strict=True):
            own, others = embed(features), embed(prototypes)  # (N, a), (K * P, a)
            scores = (own @ others.T / self.width**0.5).masked_fill(absent, -torch.inf)
            attended.append(combine(torch.cat([scores.softmax(dim=-1) @ others, own], dim=-1)).relu())
        augmented: Tensor = (features + self.out(torch.cat(attended, dim=-1))).relu()
        return augmented


class FeatMatch(Method[FeatMatchConfig]):
    """Predictions on strong views, with and without feature augmentation, agree with those on weak views."""

    name = "featmatch"
    title = "FeatMatch (Kuo et al. 2020)"
    Config = FeatMatchConfig
    views = ViewCounts(labelled_weak=1, unlabelled_weak=1, unlabelled_strong=1)
    prototypes: Tensor  # (K, P, F)
    present: Tensor  # (K, P), 1 where there is a prototype

    def __init__(self, config: FeatMatchConfig, task: Task) -> None:
        super().__init__(config, task)
        self.augmentation = FeatureAugmentation(task.num_features, config.attention_heads)
        shape = (task.num_classes, config.prototypes)
        self.register_buffer("prototypes", torch.zeros(*shape, task.num_features))
        self.register_buffer("present", torch.ones(shape))

    def refresh(self, pool: Pool, progress: Progress) -> None:
        labelled, unlabelled = pool.labelled(), pool.unlabelled()
        confidence, class_ids = unlabelled.logits.softmax(dim=-1).max(dim=-1)
        is_confident = confidence > self.config.confidence
        features = torch.cat([labelled.features, unlabelled.features[is_confident]])
        classes, count = self.present.shape
        known = torch.cat([pool.class_ids, class_ids[is_confident]])
        prototypes, present = class_prototypes(features, known, classes, count, progress.generator)
        self.prototypes.copy_(prototypes)
        self.present.copy_(present)

    def compute(self, batch: Batch, forward: Forward, progress: Progress) -> StepResult:
        outputs = forward(
            labelled=batch.labelled.weak[0],
            strong=batch.unlabelled.strong[0],
            no_grad={"weak": batch.unlabelled.weak[0]},
        )
        labelled, strong = outputs["labelled"], outputs["strong"]
        with torch.no_grad():
            weak = self._augmented_logits(outputs["weak"].features, forward)
            target = sharpen(weak.softmax(dim=-1), self.config.temperature)
        augmented = self._augmented_logits(torch.cat([labelled.features, strong.features]), forward)
        augmented_labelled, augmented_strong = augmented.split([len(labelled.features), len(strong.features)])
        ramp = linear_ramp(progress.fraction, 0.0, self.config.ramp)
        return StepResult(
            losses={
                "supervised": cross_entropy(augmented_labelled, batch.class_ids).mean(),
                "supervised_plain": cross_entropy(labelled.logits, batch.class_ids).mean(),
                "consistency": soft_cross_entropy(augmented_strong, target).mean(),
                "consistency_plain": soft_cross_entropy(strong.logits, target).mean(),
            },
            weights={
                "consistency": ramp * self.config.lambda_con,
                "consistency_plain": ramp * self.config.lambda_feature,
            },
            pseudo_labels={"one_hot": soft_pseudo_labels(target)},
        )

    def _augmented_logits(self, features: Tensor, forward: Forward) -> Tensor:
        """Return logits (N, K) of augmented features (N, F)."""
        return forward.heads(self.augmentation(features, self.prototypes.flatten(0, 1), self.present.flatten())).logits
