"""The contract of a label source: class names in, one label vector per class out.

Shapes: K classes, d embedding size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float32]
# Two unit vectors with a smaller Euclidean distance count as equal.
SAME = 1e-4


@dataclass(frozen=True)
class LabelEmbeddings:
    """Label vectors of K class names, and how each name was found."""

    names: tuple[str, ...]
    matrix: Matrix  # (K, d) float32, L2-normalised rows: M of the paper
    terms: tuple[str, ...]  # the vocabulary term each name was matched to
    routes: tuple[str, ...]  # how it was matched: "exact", "alias", "lemma", ... (labels/matching/routes.py)
    source: str  # one line of text: "bundled store (128-d, 80,000 terms)"
    default_eps: float  # the scale of cosines differs between sources, so each has its own eps
    notes: tuple[str, ...] = ()  # for the user: classes that share a term, unused aliases, ...


def centred(matrix: Matrix, centre: NDArray[np.floating]) -> Matrix:
    """Return rows (K, d) minus a centre (d,), L2-normalised; a row equal to the centre is not changed.

    The names of one domain (clothes, birds) share a direction; centring removes it and keeps what separates them.
    """
    offsets = matrix - centre
    lengths = np.linalg.norm(offsets, axis=1, keepdims=True)
    result: Matrix = np.where(lengths > SAME, offsets / np.maximum(lengths, SAME), matrix).astype(np.float32)
    return result


class LabelSource(Protocol):
    """Anything that gives class names their label vectors."""

    def vectors(self, names: Sequence[str]) -> LabelEmbeddings: ...
