"""SemCo as in the authors' released code (2021), where its pseudo-labels differ from the paper's text.

The settings of that code outside the method are in the recipe ``reference``.
Shapes: U unlabelled images, K classes, d embedding size, Q groups.
"""

from __future__ import annotations

from typing import Literal

from torch import Tensor

from semco import pseudo_labels as pl
from semco.config import Unit
from semco.methods.semco import SemCo, SemCoConfig
from semco.types import Task

# Sharpening factor at inference: a polynomial in the number of groups that the authors fitted, and its value for few.
SHARPENING = (9.170736802898897, 8.61367218e-02, -2.14301427e-04, 2.64062187e-07, -1.48480191e-10, 3.06355814e-14)


class SemCoReferenceConfig(SemCoConfig):
    name: Literal["semco_reference"] = "semco_reference"  # type: ignore[assignment]
    tau_e: Unit = 0.7
    """Threshold of the semantic head for the mean cosine of a group."""


class SemCoReference(SemCo):
    """SemCo whose group scores are mean cosines, and whose semantic head teaches the best class of the group."""

    name = "semco_reference"
    title = "SemCo, the authors' released code (2021)"
    Config = SemCoReferenceConfig
    best_in_group = True

    def __init__(self, config: SemCoReferenceConfig, task: Task) -> None:
        super().__init__(config, task)
        if config.scale == "auto":  # of the cosines at inference; pseudo-labels are not scaled
            self.scale = sharpening_factor(len(self.groups.sizes))

    def semantic_scores(self, embedding: Tensor) -> pl.SemanticScores:
        """Return softmax(cos) without a scale as class scores, and mean cosines as group scores."""
        cosines = pl.cosine_similarities(embedding, self.label_vectors)
        return pl.SemanticScores(cosines.softmax(dim=-1), self.groups.sum_scores(cosines) / self.groups.sizes)


def sharpening_factor(groups: int) -> float:
    """Return the factor of the cosines at inference for a number of groups."""
    if groups < 10:
        return 6.0
    if groups < 13:
        return 8.0 + (groups - 10) / 3
    if groups < 17:
        return 9.0 + (groups - 13) / 4
    return sum(coefficient * float(groups) ** power for power, coefficient in enumerate(SHARPENING))
