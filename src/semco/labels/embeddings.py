"""The contract of a label source: class names in, one vector a class out.

Shapes: K classes, d embedding size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float32]


@dataclass(frozen=True)
class LabelEmbeddings:
    """Vectors of K class names, and how each name was found."""

    names: tuple[str, ...]
    matrix: Matrix  # (K, d) float32, L2-normalised rows: M of the paper
    terms: tuple[str, ...]  # the vocabulary term each name was matched to
    routes: tuple[str, ...]  # how: "exact", "alias", "lemma", ... (labels/lookup.py)
    source: str  # one line for people: "bundled store (128-d, 38,000 terms)"
    default_eps: float  # cosines of each source live on their own scale, and so does eps
    notes: tuple[str, ...] = ()  # what a person should know: classes that met in one term, aliases of no class


class LabelSource(Protocol):
    def vectors(self, names: Sequence[str]) -> LabelEmbeddings: ...
