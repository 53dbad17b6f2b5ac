"""FixMatch: Simplifying Semi-Supervised Learning with Consistency and Confidence (Sohn et al. 2020).

Shapes: B labelled images, U unlabelled images, K classes.
"""

from __future__ import annotations

from typing import Generic, TypeVar

from pydantic import Field
from torch import Tensor

from semco.config import MethodConfig, Unit
from semco.losses import cross_entropy, masked_mean
from semco.methods.base import Forward, Method
from semco.pseudo_labels import FixedThreshold, ThresholdPolicy, one_hot_pseudo_labels, update_policy
from semco.types import Batch, Outputs, Progress, PseudoLabels, StepResult, Task, ViewCounts


class ConsistencyConfig(MethodConfig):
    lambda_u: float = Field(default=1.0, ge=0)
    """Weight of the loss on unlabelled images."""


class FixMatchConfig(ConsistencyConfig):
    name: str = "fixmatch"
    tau: Unit = 0.95
    """Threshold: the confidence from which a pseudo-label is retained."""


C = TypeVar("C", bound=ConsistencyConfig)


class ThresholdedConsistency(Method[C], Generic[C]):
    """The confident prediction on the weak view is the label of the strong view. Subclasses choose the policy."""

    views = ViewCounts(labelled_weak=1, unlabelled_weak=1, unlabelled_strong=1)
    policy: ThresholdPolicy

    def compute(self, batch: Batch, forward: Forward, progress: Progress) -> StepResult:
        step = forward.begin(
            labelled=batch.labelled.weak[0],
            strong=batch.unlabelled.strong[0],
            no_grad={"weak": batch.unlabelled.weak[0]},
        )
        weak = step.targets["weak"]
        update_policy(self.policy, weak.logits.softmax(dim=-1), batch.unlabelled_index, progress)
        pseudo = self.pseudo_labels(weak, batch.unlabelled_index)["one_hot"]
        factor = self.policy.loss_weight()
        weights = pseudo.weights if factor is None else pseudo.weights * factor
        outputs = step.finish(strong=weights > 0)
        strong = outputs["strong"].logits
        return StepResult(
            losses={
                "supervised": cross_entropy(outputs["labelled"].logits, batch.class_ids).mean(),  # Eq. 3
                "unlabelled": masked_mean(cross_entropy(strong, pseudo.class_ids), weights),  # Eq. 4
                **self.policy.losses(strong.softmax(dim=-1), weights, progress),
            },
            weights={"unlabelled": self.config.lambda_u, **self.policy.weights_of_losses},
            metrics={"mask_one_hot": pseudo.weights.mean()},
            pseudo_labels={"one_hot": pseudo},
        )

    def pseudo_labels(self, weak: Outputs, index: Tensor) -> dict[str, PseudoLabels]:  # noqa: ARG002
        return {"one_hot": one_hot_pseudo_labels(weak.logits, self.policy)}


class FixMatch(ThresholdedConsistency[FixMatchConfig]):
    """Pseudo-labels above a fixed threshold."""

    name = "fixmatch"
    title = "FixMatch (Sohn et al. 2020)"
    Config = FixMatchConfig

    def __init__(self, config: FixMatchConfig, task: Task) -> None:
        super().__init__(config, task)
        self.policy = FixedThreshold(config.tau)
