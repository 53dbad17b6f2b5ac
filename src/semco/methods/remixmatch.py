"""ReMixMatch: distribution alignment and augmentation anchoring (Berthelot et al. 2020).

Shapes: B labelled images, U unlabelled images, S strong views of each, C channels, H and W pixels, K classes.
"""

from __future__ import annotations

import torch
from pydantic import Field, PositiveFloat
from torch import Tensor

from semco.config import MethodConfig
from semco.data.mixing import mixmatch_mixup
from semco.losses import cross_entropy, soft_cross_entropy
from semco.methods.base import Forward, Method, ramp_over_steps
from semco.pseudo_labels import DistributionAlignment, one_hot_rows, sharpen, soft_pseudo_labels
from semco.types import Batch, Progress, StepResult, Task, ViewCounts


class ReMixMatchConfig(MethodConfig):
    name: str = "remixmatch"
    lambda_u: float = Field(default=1.5, ge=0)
    """Weight of the loss on mixed unlabelled images."""
    lambda_strong: float = Field(default=0.5, ge=0)
    """Weight of the loss on the first strong view before mixing."""
    lambda_rotation: float = Field(default=0.5, ge=0)
    """Weight of the rotation loss."""
    ramp_up_steps: int = Field(default=16_384, ge=0)
    """Steps over which lambda_u and lambda_strong grow, or the whole run if it is shorter (the authors: 16,384 of
    2^20)."""
    temperature: PositiveFloat = 0.5
    """Temperature of sharpening; 1 turns sharpening off."""
    alpha: float = Field(default=0.75, ge=0)
    """Parameter of mixup's Beta distribution; 0 turns mixing off."""
    strong_views: int = Field(default=8, ge=1)
    """Strong views per unlabelled image: K of the paper."""
    alignment_steps: int = Field(default=128, ge=1)
    """Number of steps over which the mean prediction is taken."""


class ReMixMatch(Method[ReMixMatchConfig]):
    """MixMatch whose targets come from a weak view, aligned to the class distribution, and hold for strong views."""

    name = "remixmatch"
    title = "ReMixMatch (Berthelot et al. 2020)"
    Config = ReMixMatchConfig
    views = ViewCounts(labelled_weak=0, labelled_strong=1, unlabelled_weak=1, unlabelled_strong=8)
    changes_images = True
    heads = ("one_hot", "rotation")

    def __init__(self, config: ReMixMatchConfig, task: Task) -> None:
        super().__init__(config, task)
        self.classes = task.num_classes
        self.views = ViewCounts(0, 1, 1, config.strong_views)
        self.alignment = DistributionAlignment(task.labelled_counts, config.alignment_steps)

    def compute(self, batch: Batch, forward: Forward, progress: Progress) -> StepResult:
        weak, strong, size = batch.unlabelled.weak[0], batch.unlabelled.strong, len(batch.class_ids)
        guess = forward(no_grad={"weak": weak})["weak"].logits.softmax(dim=-1)
        guess = sharpen(self.alignment(guess), self.config.temperature)  # (U, K)
        labels = one_hot_rows(batch.class_ids, self.classes, guess.dtype)
        images = torch.cat([batch.labelled.strong[0], *strong, weak])  # (B + (S + 1) U, C, H, W)
        targets = torch.cat([labels, guess.repeat(len(strong) + 1, 1)])  # (B + (S + 1) U, K)
        mixed, mixed_targets = mixmatch_mixup(images, targets, self.config.alpha, progress.generator)
        rotated, turns = rotate_randomly(strong[0], progress.generator)
        outputs = forward(mixed=mixed, strong=strong[0], rotated=rotated)
        to_target = soft_cross_entropy(outputs["mixed"].logits, mixed_targets)
        assert outputs["rotated"].rotation is not None  # declared in heads
        ramp = ramp_over_steps(progress, self.config.ramp_up_steps)
        return StepResult(
            losses={  # Eq. 3-4
                "supervised": to_target[:size].mean(),
                "unlabelled": to_target[size:].mean(),
                "strong": soft_cross_entropy(outputs["strong"].logits, guess).mean(),
                "rotation": cross_entropy(outputs["rotated"].rotation, turns).mean(),
            },
            weights={
                "unlabelled": ramp * self.config.lambda_u,
                "strong": ramp * self.config.lambda_strong,
                "rotation": self.config.lambda_rotation,
            },
            pseudo_labels={"one_hot": soft_pseudo_labels(guess)},
        )


@torch.no_grad()
def rotate_randomly(images: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Return images (U, C, H, W) rotated by 0 to 3 quarter turns, and the turns (U,); half turns if H is not W."""
    angles = (0, 1, 2, 3) if images.shape[-1] == images.shape[-2] else (0, 2)
    turns = torch.tensor(angles)[torch.randint(len(angles), (len(images),), generator=generator)]
    turns = turns.to(images.device)
    rotated = images.clone()
    for turn in angles[1:]:
        chosen = (turns == turn)[:, None, None, None]
        rotated = torch.where(chosen, images.rot90(turn, (2, 3)), rotated)
    return rotated, turns
