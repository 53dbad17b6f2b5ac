"""FixMatch: Simplifying Semi-Supervised Learning with Consistency and Confidence (Sohn et al. 2020).

Shapes: B labelled images, U unlabelled images, K classes.
"""

from __future__ import annotations

import torch
from pydantic import Field
from torch import Tensor

from semco.config import Unit
from semco.losses import cross_entropy, masked_mean
from semco.methods.base import Forward, Method
from semco.methods.thresholding import ThresholdConfig, build_policy, weighed
from semco.pseudo_labels import one_hot_pseudo_labels
from semco.types import Batch, Outputs, Progress, PseudoLabels, StepResult, Task, ViewCounts


class FixMatchConfig(ThresholdConfig):
    name: str = "fixmatch"
    lambda_u: float = Field(default=1.0, ge=0)
    """Weight of the loss on unlabelled images."""
    tau: Unit = 0.95
    """Confidence from which a pseudo-label is trusted."""


class FixMatch(Method[FixMatchConfig]):
    """The weak view's confident prediction is the strong view's label."""

    name = "fixmatch"
    title = "FixMatch (Sohn et al. 2020)"
    Config = FixMatchConfig
    views = ViewCounts(labelled_weak=1, unlabelled_weak=1, unlabelled_strong=1)

    def __init__(self, config: FixMatchConfig, task: Task) -> None:
        super().__init__(config, task)
        self.policy = build_policy(config, config.tau, torch.ones(task.num_classes), task.pool_size)

    def compute(self, batch: Batch, forward: Forward, progress: Progress) -> StepResult:  # noqa: ARG002
        outputs = forward(
            labelled=batch.labelled.weak[0],
            strong=batch.unlabelled.strong[0],
            no_grad={"weak": batch.unlabelled.weak[0]},
        )
        strong = outputs["strong"].logits
        pseudo = self.pseudo_labels(outputs["weak"], batch.unlabelled_index)["one_hot"]
        lesson = weighed(pseudo, self.config, self.policy)
        of_policy = self.policy.losses(strong.softmax(dim=-1), lesson.mask) if self.policy.has_losses else {}
        return StepResult(
            losses={
                "supervised": cross_entropy(outputs["labelled"].logits, batch.labels).mean(),
                "unlabelled": masked_mean(cross_entropy(strong, lesson.labels), lesson.mask),
                **of_policy,
            },
            weights={"unlabelled": self.config.lambda_u, **dict.fromkeys(of_policy, self.config.lambda_f)},
            metrics={"mask_one_hot": pseudo.mask.mean()},
            pseudo_labels={"one_hot": pseudo},
        )

    def pseudo_labels(self, weak: Outputs, index: Tensor) -> dict[str, PseudoLabels]:
        return {"one_hot": one_hot_pseudo_labels(weak.logits, index, self.policy)}
