"""DeViSE: A Deep Visual-Semantic Embedding Model (Frome et al. 2013).

Supervised: the semantic head learns to predict the vector of the label, so that it can be asked for classes that no
training image shows, by their names alone.
Shapes: B labelled images, K classes, d embedding size.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field, PositiveFloat
from torch import Tensor

from semco.config import MethodConfig
from semco.losses import cosine_loss, cross_entropy, ranking_loss
from semco.methods.base import Forward, Method
from semco.pseudo_labels import solve_scale
from semco.types import Batch, Progress, StepResult, Task


class DeViSEConfig(MethodConfig):
    name: str = "devise"
    loss: Literal["ranking", "cosine"] = "ranking"
    """What the semantic head minimises: the paper's hinge rank loss, or the cosine loss that SemCo uses."""
    margin: float = Field(default=0.1, ge=0)
    """By how much the right class must be nearer than any other (ranking only)."""
    semantic_weight: float = Field(default=1.0, ge=0)
    """Weight of the semantic loss."""
    scale: PositiveFloat | Literal["auto"] = "auto"
    """Scale of the cosines when the semantic head predicts; "auto": perfect predictions get perfect_score on
    average."""
    perfect_score: float = Field(default=0.9, gt=0, lt=1)
    """What scale=auto gives a perfect prediction on average."""


class DeViSE(Method[DeViSEConfig]):
    """The one-hot head learns classes, the semantic head learns where their names lie."""

    name = "devise"
    title = "DeViSE (Frome et al. 2013)"
    Config = DeViSEConfig
    heads = ("one_hot", "semantic")
    matrix: Tensor  # (K, d): t of the paper

    def __init__(self, config: DeViSEConfig, task: Task) -> None:
        super().__init__(config, task)
        self.register_buffer("matrix", task.embeddings.clone(), persistent=False)
        self.scale = (
            solve_scale(task.embeddings, task.groups, config.perfect_score, task.class_names)
            if config.scale == "auto"
            else config.scale
        )

    def compute(self, batch: Batch, forward: Forward, progress: Progress) -> StepResult:  # noqa: ARG002
        outputs = forward(labelled=batch.labelled.weak[0])["labelled"]
        assert outputs.embedding is not None
        return StepResult(
            losses={
                "supervised_one_hot": cross_entropy(outputs.logits, batch.labels).mean(),
                "supervised_semantic": self._semantic(outputs.embedding, batch.labels).mean(),
            },
            weights={"supervised_semantic": self.config.semantic_weight},
        )

    def _semantic(self, embedding: Tensor, labels: Tensor) -> Tensor:
        if self.config.loss == "cosine":
            return cosine_loss(self.matrix[labels], embedding)
        return ranking_loss(embedding, labels, self.matrix, self.config.margin)
