"""Mean Teacher: weight-averaged consistency targets (Tarvainen & Valpola 2017).

Shapes: B labelled images, U unlabelled images, K classes.
"""

from __future__ import annotations

from pydantic import Field

from semco.config import MethodConfig, Unit
from semco.losses import cross_entropy, squared_error
from semco.methods.base import Forward, Method, sigmoid_ramp
from semco.pseudo_labels import soft_pseudo_labels
from semco.types import Batch, Progress, StepResult, ViewCounts


class MeanTeacherConfig(MethodConfig):
    name: str = "mean_teacher"
    lambda_u: float = Field(default=100.0, ge=0)
    """Final weight of the consistency loss, which is a mean over unlabelled images."""
    ramp_up: Unit = 40 / 150
    """Fraction of the run over which the weight grows (40,000 of 150,000 steps)."""


class MeanTeacher(Method[MeanTeacherConfig]):
    """The prediction on one weak view learns from the EMA model's prediction on another."""

    name = "mean_teacher"
    title = "Mean Teacher (Tarvainen & Valpola 2017)"
    Config = MeanTeacherConfig
    views = ViewCounts(labelled_weak=1, unlabelled_weak=2)

    def compute(self, batch: Batch, forward: Forward, progress: Progress) -> StepResult:
        first, second = batch.unlabelled.weak
        outputs = forward(labelled=batch.labelled.weak[0], student=first)
        target = forward.teacher(teacher=second)["teacher"].logits.softmax(dim=-1)  # (U, K)
        student = outputs["student"].logits.softmax(dim=-1)
        return StepResult(
            losses={
                "supervised": cross_entropy(outputs["labelled"].logits, batch.class_ids).mean(),
                "consistency": squared_error(student, target).mean(),
            },
            weights={"consistency": self.config.lambda_u * sigmoid_ramp(progress.fraction, self.config.ramp_up)},
            pseudo_labels={"one_hot": soft_pseudo_labels(target)},
        )
