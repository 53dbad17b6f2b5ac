"""The supervised baseline: labelled images only."""

from __future__ import annotations

from semco.config import MethodConfig
from semco.losses import cross_entropy
from semco.methods.base import Forward, Method
from semco.types import Batch, Progress, StepResult


class SupervisedConfig(MethodConfig):
    name: str = "supervised"


class Supervised(Method[SupervisedConfig]):
    """Cross-entropy on weak views of the labelled images."""

    name = "supervised"
    title = "Supervised baseline"
    Config = SupervisedConfig

    def compute(self, batch: Batch, forward: Forward, progress: Progress) -> StepResult:  # noqa: ARG002
        labelled = forward(labelled=batch.labelled.weak[0])["labelled"]
        return StepResult(losses={"supervised": cross_entropy(labelled.logits, batch.class_ids).mean()})
