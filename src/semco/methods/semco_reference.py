"""SemCo as in the authors' released code (2021), where its pseudo-labels differ from the paper's text.

The settings of that code outside the method are in the recipe ``reference``.
Shapes: U unlabelled images, K classes, d embedding size, Q groups.
"""

from __future__ import annotations

from typing import Literal

from pydantic import PositiveFloat
from torch import Tensor

from semco import pseudo_labels as pl
from semco.config import Unit
from semco.methods.semco import SemCo, SemCoConfig


class SemCoReferenceConfig(SemCoConfig):
    name: Literal["semco_reference"] = "semco_reference"  # type: ignore[assignment]
    tau_e: Unit = 0.7
    """Threshold of the semantic head for the mean cosine of a group."""
    semantic_loss: Literal["cosine"] = "cosine"
    """Loss of the semantic head."""
    scale: PositiveFloat | Literal["solved", "authors"] = "authors"
    """Scale of the cosines at inference; pseudo-labels are not scaled."""


class SemCoReference(SemCo):
    """SemCo whose group scores are mean cosines, and whose semantic head teaches the best class of the group."""

    name = "semco_reference"
    title = "SemCo, the authors' released code (2021)"
    Config = SemCoReferenceConfig
    best_in_group = True

    def semantic_scores(self, embedding: Tensor) -> pl.SemanticScores:
        """Return softmax(cos) without a scale as class scores, and mean cosines as group scores."""
        cosines = pl.cosine_similarities(embedding, self.label_vectors)
        return pl.SemanticScores(cosines.softmax(dim=-1), self.groups.sum_scores(cosines) / self.groups.sizes)
