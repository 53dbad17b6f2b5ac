"""Which classes look most alike, and which least, according to their label vectors (Fig. 2 of the paper).

Shapes: K classes, d embedding size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from semco.config import LabelsConfig
from semco.errors import UserError
from semco.labels import label_source

SHOWN = 4  # classes of each kind, as in the paper


@dataclass(frozen=True)
class SimilarClasses:
    """The classes whose nearest other class is closest, and those whose nearest other class is farthest."""

    most: tuple[int, ...]
    least: tuple[int, ...]


def nearest_similarity(matrix: NDArray[np.floating]) -> NDArray[np.float64]:
    """Return the highest cosine of each class with another class (K,), from label vectors (K, d)."""
    rows = matrix / np.maximum(np.linalg.norm(matrix, axis=1, keepdims=True), 1e-12)
    cosines = (rows @ rows.T).astype(np.float64)
    np.fill_diagonal(cosines, -np.inf)
    highest: NDArray[np.float64] = cosines.max(axis=1)
    return highest


def most_and_least_similar(similarity: NDArray[np.floating], number: int = SHOWN) -> SimilarClasses:
    """Return the classes with the highest and the lowest similarity (K,); no class is in both."""
    order = np.argsort(-similarity, kind="stable").tolist()
    number = min(number, len(order) // 2)
    return SimilarClasses(tuple(order[:number]), tuple(reversed(order[len(order) - number :])))


def find_similar_classes(names: Sequence[str], labels: LabelsConfig, number: int = SHOWN) -> SimilarClasses | None:
    """Return the most and least similar classes of a run; None if its class names have no label vectors."""
    try:
        matrix = label_source(labels).vectors(tuple(names)).matrix
    except UserError:
        return None
    return most_and_least_similar(nearest_similarity(matrix), number)
