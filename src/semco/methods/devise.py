"""DeViSE: A Deep Visual-Semantic Embedding Model (Frome et al. 2013).

Supervised: the semantic head learns to predict the vector of the label, so that it can also recognise classes without
training images, by their names alone.
Shapes: B labelled images, K classes, d embedding size.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field, PositiveFloat
from torch import Tensor

from semco.config import MethodConfig
from semco.losses import cosine_loss, cross_entropy, ranking_loss
from semco.methods.base import Forward, Method
from semco.pseudo_labels import choose_scale
from semco.types import Batch, Progress, StepResult, Task


class DeViSEConfig(MethodConfig):
    name: str = "devise"
    loss: Literal["ranking", "cosine"] = "ranking"
    """Loss of the semantic head: the paper's hinge rank loss, or SemCo's cosine loss."""
    margin: float = Field(default=0.1, ge=0)
    """Margin by which the right class must be closer than any other (ranking only)."""
    semantic_weight: float = Field(default=1.0, ge=0)
    """Weight of the semantic loss."""
    scale: PositiveFloat | Literal["solved"] = "solved"
    """Scale of the cosines when the semantic head predicts; "solved": a perfect prediction scores perfect_score on
    average."""
    perfect_score: float = Field(default=0.9, gt=0, lt=1)
    """Mean score of a perfect prediction with scale=solved."""
    vectors: Literal["centred", "as_given"] = "centred"
    """Label vectors that the semantic head predicts: with their mean subtracted, or as given."""

    @property
    def centres_label_vectors(self) -> bool:
        return self.vectors == "centred"


class DeViSE(Method[DeViSEConfig]):
    """The one-hot head learns the classes, the semantic head their label vectors."""

    name = "devise"
    title = "DeViSE (Frome et al. 2013)"
    Config = DeViSEConfig
    heads = ("one_hot", "semantic")
    predicting_head = pretrained_head = "semantic"  # section 3.3: the nearest label vector
    label_vectors: Tensor  # (K, d): t of the paper

    def __init__(self, config: DeViSEConfig, task: Task) -> None:
        super().__init__(config, task)
        self.register_buffer("label_vectors", task.label_vectors.clone(), persistent=False)
        self.scale = choose_scale(config.scale, config.perfect_score, task)

    def compute(self, batch: Batch, forward: Forward, progress: Progress) -> StepResult:  # noqa: ARG002
        outputs = forward(labelled=batch.labelled.weak[0])["labelled"]
        assert outputs.embedding is not None
        return StepResult(
            losses={
                "supervised_one_hot": cross_entropy(outputs.logits, batch.class_ids).mean(),
                "supervised_semantic": self._semantic_loss(outputs.embedding, batch.class_ids).mean(),
            },
            weights={"supervised_semantic": self.config.semantic_weight},
        )

    def _semantic_loss(self, embedding: Tensor, class_ids: Tensor) -> Tensor:
        if self.config.loss == "cosine":
            return cosine_loss(embedding, self.label_vectors[class_ids])
        return ranking_loss(embedding, class_ids, self.label_vectors, self.config.margin)
