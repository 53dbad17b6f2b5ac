"""Pseudo-Label: the simple and efficient semi-supervised learning method (Lee 2013).

Shapes: B labelled images, U unlabelled images, K classes.
"""

from __future__ import annotations

from pydantic import Field, model_validator

from semco.config import MethodConfig, Unit
from semco.losses import cross_entropy, masked_mean
from semco.methods.base import Forward, Method, linear_ramp
from semco.pseudo_labels import FixedThreshold, one_hot_pseudo_labels
from semco.types import Batch, Progress, StepResult, Task, ViewCounts


class PseudoLabelConfig(MethodConfig):
    name: str = "pseudo_label"
    alpha: float = Field(default=3.0, ge=0)
    """Final weight alpha_f of the unlabelled loss."""
    start: Unit = 0.1
    """Fraction of the run at which the weight starts to grow (T1)."""
    end: Unit = 0.6
    """Fraction of the run at which the weight has its final value (T2)."""
    tau: Unit = 0.0
    """Threshold: the confidence from which a pseudo-label is retained; the paper retains all."""

    @model_validator(mode="after")
    def _check_order(self) -> PseudoLabelConfig:
        if self.end < self.start:
            raise ValueError(f"end = {self.end:g} must not be before start = {self.start:g}")
        return self


class PseudoLabel(Method[PseudoLabelConfig]):
    """The most likely class of an unlabelled image is used as its label."""

    name = "pseudo_label"
    title = "Pseudo-Label (Lee 2013)"
    Config = PseudoLabelConfig
    views = ViewCounts(labelled_weak=1, unlabelled_weak=1)

    def __init__(self, config: PseudoLabelConfig, task: Task) -> None:
        super().__init__(config, task)
        self.policy = FixedThreshold(config.tau)

    def compute(self, batch: Batch, forward: Forward, progress: Progress) -> StepResult:
        outputs = forward(labelled=batch.labelled.weak[0], unlabelled=batch.unlabelled.weak[0])
        logits = outputs["unlabelled"].logits
        pseudo = one_hot_pseudo_labels(logits, self.policy)  # Eq. 14
        alpha = self.config.alpha * linear_ramp(progress.fraction, self.config.start, self.config.end)  # Eq. 16
        return StepResult(
            losses={
                "supervised": cross_entropy(outputs["labelled"].logits, batch.class_ids).mean(),
                "unlabelled": masked_mean(cross_entropy(logits, pseudo.class_ids), pseudo.weights),
            },
            weights={"unlabelled": alpha},
            metrics={"mask_one_hot": pseudo.weights.mean()},
            pseudo_labels={"one_hot": pseudo},
        )
