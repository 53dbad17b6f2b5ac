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
# Vectors of length 1 that are nearer than this are the same.
SAME = 1e-4


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


def centred(matrix: Matrix, centre: NDArray[np.floating]) -> Matrix:
    """Rows (K, d) as seen from a centre (d,), L2-normalised; a row that lies in the centre stays as it is.

    Names of one field (clothes, birds) all point the same way; what tells them apart is what is left without it.
    """
    apart = matrix - centre
    length = np.linalg.norm(apart, axis=1, keepdims=True)
    seen: Matrix = np.where(length > SAME, apart / np.maximum(length, SAME), matrix).astype(np.float32)
    return seen


class LabelSource(Protocol):
    def vectors(self, names: Sequence[str]) -> LabelEmbeddings: ...
