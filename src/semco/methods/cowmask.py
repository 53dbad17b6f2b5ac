"""CowMask: mask-based mixing consistency (French et al. 2020).

Shapes: B labelled images, U unlabelled images, H and W pixels, K classes.
"""

from __future__ import annotations

from pydantic import Field, PositiveFloat, model_validator

from semco.config import MethodConfig, Unit
from semco.data.mixing import cow_masks, mix
from semco.losses import cross_entropy, squared_error
from semco.methods.base import Forward, Method
from semco.pseudo_labels import soft_pseudo_labels
from semco.types import Batch, Progress, StepResult, Task, ViewCounts


class CowMaskConfig(MethodConfig):
    name: str = "cowmask"
    lambda_u: float = Field(default=30.0, ge=0)
    """Weight of the consistency loss, which is a sum over the classes."""
    tau: Unit = 0.6
    """Confidence from which a mixed image counts; the fraction of such images scales the loss of all images."""
    sigma_min: PositiveFloat = 4 / 32
    """Smallest smoothing of the masks, as a fraction of the image side (4 of 32 pixels)."""
    sigma_max: PositiveFloat = 16 / 32
    """Largest smoothing of the masks (16 of 32 pixels)."""
    proportion_min: Unit = 0.2
    """Smallest fraction of an image that a mask replaces."""
    proportion_max: Unit = 0.8
    """Largest fraction of an image that a mask replaces."""

    @model_validator(mode="after")
    def _check_order(self) -> CowMaskConfig:
        for name in ("sigma", "proportion"):
            low, high = getattr(self, f"{name}_min"), getattr(self, f"{name}_max")
            if low > high:
                raise ValueError(f"{name}_min = {low:g} must not be above {name}_max = {high:g}")
        return self


class CowMask(Method[CowMaskConfig]):
    """The prediction on two images joined along irregular patches is the mean of both predictions, weighted by area."""

    name = "cowmask"
    title = "CowMask (French et al. 2020)"
    Config = CowMaskConfig
    views = ViewCounts(labelled_weak=1, unlabelled_weak=1)
    changes_images = True

    def __init__(self, config: CowMaskConfig, task: Task) -> None:
        super().__init__(config, task)
        self.classes = task.num_classes

    def compute(self, batch: Batch, forward: Forward, progress: Progress) -> StepResult:
        config, images = self.config, batch.unlabelled.weak[0]
        side = max(images.shape[-2:])
        mask = cow_masks(
            images,
            (config.sigma_min * side, config.sigma_max * side),
            (config.proportion_min, config.proportion_max),
            progress.generator,
        )  # (U, 1, H, W), 1 where the next image of the step is shown
        kept = 1.0 - mask.mean(dim=(1, 2, 3))  # (U,)
        probabilities = forward.teacher(weak=images)["weak"].logits.softmax(dim=-1)  # (U, K)
        pseudo = soft_pseudo_labels(probabilities)
        confidence = mix(pseudo.confidence, pseudo.confidence.roll(-1), kept)
        share = progress.mean((confidence > config.tau).to(probabilities.dtype).mean())
        mixed = mix(images, images.roll(-1, dims=0), 1.0 - mask)
        # Separate passes, as the authors do: neither is normalised by the other, and mixed images, which the model does
        # not see at test time, stay out of the running statistics.
        labelled = forward(labelled=batch.labelled.weak[0])["labelled"].logits
        student = forward.without_statistics(mixed=mixed)["mixed"].logits.softmax(dim=-1)
        error = squared_error(student, mix(probabilities, probabilities.roll(-1, dims=0), kept)).mean()
        return StepResult(
            losses={
                "supervised": cross_entropy(labelled, batch.class_ids).mean(),
                "consistency": error * self.classes * share,  # the paper sums over the classes
            },
            weights={"consistency": config.lambda_u},
            metrics={"confident": share},
            pseudo_labels={"one_hot": soft_pseudo_labels(probabilities, pseudo.confidence > config.tau)},
        )
