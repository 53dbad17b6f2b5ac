"""ICT: Interpolation Consistency Training (Verma et al. 2019).

Shapes: B labelled images, U unlabelled images, K classes.
"""

from __future__ import annotations

from pydantic import Field

from semco.config import MethodConfig, Unit
from semco.data.mixing import beta_weights, mix, permutation
from semco.losses import cross_entropy, squared_error
from semco.methods.base import Forward, Method, sigmoid_ramp
from semco.pseudo_labels import soft_pseudo_labels
from semco.types import Batch, Progress, StepResult, ViewCounts


class ICTConfig(MethodConfig):
    name: str = "ict"
    lambda_u: float = Field(default=100.0, ge=0)
    """Final weight of the consistency loss."""
    ramp_up: Unit = 0.25
    """Fraction of the run over which the weight grows."""
    alpha: float = Field(default=1.0, ge=0)
    """Parameter of the Beta distribution of the mixing weight (CIFAR-10: 1, SVHN: 0.1); 0 turns mixing off."""


class ICT(Method[ICTConfig]):
    """The prediction on a mixture of two images is the mixture of the EMA model's predictions."""

    name = "ict"
    title = "ICT (Verma et al. 2019)"
    Config = ICTConfig
    views = ViewCounts(labelled_weak=1, unlabelled_weak=1)
    changes_images = True

    def compute(self, batch: Batch, forward: Forward, progress: Progress) -> StepResult:
        images = batch.unlabelled.weak[0]
        target = forward.teacher(weak=images)["weak"].logits.softmax(dim=-1)  # (U, K)
        weight = beta_weights(1, self.config.alpha, images, progress.generator)  # (1,), the same for the whole step
        partner = permutation(len(images), images.device, progress.generator)  # (U,)
        mixed = mix(images, images[partner], weight)
        # Separate passes, as the authors do: neither is normalised by the other, and mixed images, which the model does
        # not see at test time, stay out of the running statistics.
        labelled = forward(labelled=batch.labelled.weak[0])["labelled"].logits
        student = forward.without_statistics(mixed=mixed)["mixed"].logits.softmax(dim=-1)
        return StepResult(
            losses={
                "supervised": cross_entropy(labelled, batch.class_ids).mean(),
                "consistency": squared_error(student, mix(target, target[partner], weight)).mean(),
            },
            weights={"consistency": self.config.lambda_u * sigmoid_ramp(progress.fraction, self.config.ramp_up)},
            pseudo_labels={"one_hot": soft_pseudo_labels(target)},
        )
