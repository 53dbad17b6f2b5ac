"""Pi-model: consistency of two noisy passes (Laine & Aila 2017, Alg. 1).

Shapes: B labelled images, U unlabelled images, K classes.
"""

from __future__ import annotations

from pydantic import Field

from semco.config import MethodConfig, Unit
from semco.losses import cross_entropy, squared_error
from semco.methods.base import Forward, Method, sigmoid_ramp
from semco.pseudo_labels import soft_pseudo_labels
from semco.types import Batch, Progress, StepResult, ViewCounts


class PiModelConfig(MethodConfig):
    name: str = "pi_model"
    lambda_u: float = Field(default=100.0, ge=0)
    """Final weight of the consistency loss, which is a mean over unlabelled images."""
    ramp_up: Unit = 80 / 300
    """Fraction of the run over which the weight grows (80 of 300 epochs)."""


class PiModel(Method[PiModelConfig]):
    """The predictions on two weak views learn from each other, with gradient through both."""

    name = "pi_model"
    title = "Pi-model (Laine & Aila 2017)"
    Config = PiModelConfig
    views = ViewCounts(labelled_weak=1, unlabelled_weak=2)

    def compute(self, batch: Batch, forward: Forward, progress: Progress) -> StepResult:
        one, two = batch.unlabelled.weak
        outputs = forward(labelled=batch.labelled.weak[0], one=one, two=two)
        z, z_tilde = (outputs[view].logits.softmax(dim=-1) for view in ("one", "two"))  # (U, K) each
        return StepResult(
            losses={
                "supervised": cross_entropy(outputs["labelled"].logits, batch.class_ids).mean(),
                "consistency": squared_error(z, z_tilde).mean(),
            },
            weights={"consistency": self.config.lambda_u * sigmoid_ramp(progress.fraction, self.config.ramp_up)},
            pseudo_labels={"one_hot": soft_pseudo_labels((z + z_tilde) / 2)},
        )
