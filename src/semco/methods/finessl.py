"""FineSSL: Erasing the Bias, Fine-Tuning Foundation Models for Semi-Supervised Learning (Gan & Wei 2024).

Shapes: B labelled images, U unlabelled images, S strong views of each, N images of the pool, F features, K classes.
"""

from __future__ import annotations

import torch
from pydantic import Field
from torch import Tensor, nn

from semco.config import Unit
from semco.losses import cross_entropy, masked_mean, retained_mean, soft_cross_entropy
from semco.methods.base import Forward, Method
from semco.methods.fixmatch import ConsistencyConfig
from semco.methods.flexmatch import NEVER
from semco.pseudo_labels import one_hot_rows
from semco.types import Batch, Outputs, Progress, PseudoLabels, StepResult, Task, ViewCounts

STRONG_VIEWS = 2


class FineSSLConfig(ConsistencyConfig):
    name: str = "finessl"
    lambda_u: float = Field(default=3.0, ge=0)
    """Weight of the loss on unlabelled images."""
    tau: Unit = 0.7
    """Confidence from which a pseudo-label is counted for the margins and trains the auxiliary classifier."""
    margin: float = Field(default=8.0, ge=0)
    """Largest margin, in logits: alpha of the paper."""
    smoothing: Unit = 0.5
    """Label smoothing of the pseudo-labels that train the auxiliary classifier."""


class FineSSL(Method[FineSSLConfig]):
    """Margins for classes with few pseudo-labels; an auxiliary classifier says how much each pseudo-label counts."""

    name = "finessl"
    title = "FineSSL (Gan & Wei 2024)"
    Config = FineSSLConfig
    views = ViewCounts(labelled_weak=1, unlabelled_weak=1, unlabelled_strong=STRONG_VIEWS)
    per_image_buffers = ("chosen",)
    chosen: Tensor  # (N,) int64, the last confident pseudo-label of each image

    def __init__(self, config: FineSSLConfig, task: Task) -> None:
        super().__init__(config, task)
        self.auxiliary = nn.Linear(task.num_features, task.num_classes)
        self.register_buffer("chosen", torch.full((task.pool_size,), NEVER))

    def compute(self, batch: Batch, forward: Forward, progress: Progress) -> StepResult:
        strong_views = {f"strong{number}": view for number, view in enumerate(batch.unlabelled.strong)}
        outputs = forward(labelled=batch.labelled.weak[0], **strong_views, no_grad={"weak": batch.unlabelled.weak[0]})
        labelled, weak = outputs["labelled"], outputs["weak"]
        strong = torch.cat([outputs[name].logits for name in strong_views])  # (S U, K)
        # Without the gradient of the features: the auxiliary classifier does not train the backbone.
        auxiliary = self.auxiliary(torch.cat([outputs[name].features.detach() for name in strong_views]))
        margins = class_margins(self.chosen, strong.shape[-1], self.config.margin).to(strong.dtype)
        pseudo = self.pseudo_labels(weak, batch.unlabelled_index)["one_hot"]
        self._record(pseudo, batch.unlabelled_index)
        class_ids, weights, confidence = (
            part.repeat(STRONG_VIEWS) for part in (pseudo.class_ids, pseudo.weights, pseudo.confidence)
        )
        smooth = smooth_labels(class_ids, strong.shape[-1], self.config.smoothing, strong.dtype)
        is_confident = (confidence >= self.config.tau).to(strong.dtype)
        auxiliary_labelled = self.auxiliary(labelled.features.detach())
        return StepResult(
            losses={
                "supervised": cross_entropy(
                    add_margins(labelled.logits, batch.class_ids, margins), batch.class_ids
                ).mean(),
                "unlabelled": masked_mean(cross_entropy(add_margins(strong, class_ids, margins), class_ids), weights),
                "auxiliary": cross_entropy(auxiliary_labelled, batch.class_ids).mean(),
                "auxiliary_unlabelled": retained_mean(soft_cross_entropy(auxiliary, smooth), is_confident, progress),
            },
            weights={"unlabelled": self.config.lambda_u},
            metrics={"mask_one_hot": pseudo.weights.mean(), "largest_margin": margins.max()},
            pseudo_labels={"one_hot": pseudo},
        )

    @torch.no_grad()
    def pseudo_labels(self, weak: Outputs, index: Tensor) -> dict[str, PseudoLabels]:  # noqa: ARG002
        """Return the classes of the one-hot head, weighted by the confidence of the auxiliary classifier."""
        confidence, class_ids = weak.logits.softmax(dim=-1).max(dim=-1)
        weights = self.auxiliary(weak.features).softmax(dim=-1).amax(dim=-1)
        return {"one_hot": PseudoLabels(class_ids, weights=weights, confidence=confidence)}

    def _record(self, pseudo: PseudoLabels, index: Tensor) -> None:
        """Record the confident pseudo-labels of the images (U,) of this step."""
        is_confident = pseudo.confidence >= self.config.tau
        self.chosen[index] = torch.where(is_confident, pseudo.class_ids, self.chosen[index])


def class_margins(chosen: Tensor, classes: int, largest: float) -> Tensor:
    """Return the margin (K,) of each class, from the last confident pseudo-label of each image (N,).

    sigma_k is the number of images of class k relative to the most frequent class. The margin of class k is
    largest * (max sigma - min sigma) * (1 - sigma_k) / (1 + sigma_k): 0 for all while the counts are equal.
    """
    ones = torch.ones(len(chosen), device=chosen.device)
    counts = ones.new_zeros(classes + 1).index_add_(0, chosen - NEVER, ones)[1:]
    sigma = counts / counts.max().clamp(min=1)
    return largest * (sigma.max() - sigma.min()) * (1 - sigma) / (1 + sigma)


def add_margins(logits: Tensor, class_ids: Tensor, margins: Tensor) -> Tensor:
    """Return logits (N, K) with the margin of the label (N,) added to every other class (balanced margin softmax)."""
    others = 1 - one_hot_rows(class_ids, logits.shape[-1], logits.dtype)
    return logits + margins[class_ids][:, None] * others


def smooth_labels(class_ids: Tensor, classes: int, smoothing: float, dtype: torch.dtype) -> Tensor:
    """Return 1 - smoothing at the label (N,), and the rest spread evenly over the other classes: (N, K)."""
    own = one_hot_rows(class_ids, classes, dtype)
    return (1 - smoothing) * own + smoothing / (classes - 1) * (1 - own)
