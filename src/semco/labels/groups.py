"""Label groups: classes whose vectors are neighbours (the paper, section 3.2: DBSCAN on cosine distance).

Shapes: K classes, d embedding size, Q groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from semco.errors import UserError
from semco.labels.embeddings import LabelEmbeddings, Matrix

SWALLOWED = 0.5  # a group with more than this part of the classes is warned of
SEVERAL = 6  # of fewer classes most may well be look-alikes


@dataclass(frozen=True)
class Groups:
    """Which classes are alike."""

    names: tuple[str, ...]
    labels: NDArray[np.int64]  # (K,) group of each class, 0..Q-1 in order of first appearance
    eps: float
    notes: tuple[str, ...] = ()  # what a person should know before training with them

    @property
    def members(self) -> tuple[tuple[str, ...], ...]:
        """The names of each group."""
        lists: list[list[str]] = [[] for _ in range(self.count)]
        for name, label in zip(self.names, self.labels.tolist(), strict=True):
            lists[label].append(name)
        return tuple(map(tuple, lists))

    @property
    def count(self) -> int:
        return int(self.labels.max()) + 1

    @property
    def largest(self) -> int:
        return int(np.bincount(self.labels).max())


def group(embeddings: LabelEmbeddings, eps: float | Literal["auto"] = "auto") -> Groups:
    """Groups of the classes at ``eps``; "auto" is the source's own default, 0 leaves every class alone."""
    radius = embeddings.default_eps if eps == "auto" else float(eps)
    labels = group_labels(embeddings.names, embeddings.matrix, radius)
    groups = Groups(embeddings.names, labels, radius)
    return Groups(embeddings.names, labels, radius, _notes(groups))


def group_labels(names: Sequence[str], matrix: Matrix, eps: float) -> NDArray[np.int64]:
    """(K,) group numbers; rows are clustered in the order of their names: any order gives the same groups."""
    if not 0 <= eps <= 2:
        raise UserError(f"eps = {eps:g} is not a cosine distance; take one between 0 (no groups) and 2.")
    if eps == 0:
        return np.arange(len(names), dtype=np.int64)
    from sklearn.cluster import DBSCAN

    order = np.asarray(sorted(range(len(names)), key=lambda i: names[i]), dtype=np.int64)
    found = np.empty(len(names), dtype=np.int64)
    rows = matrix[order].astype(np.float64)
    found[order] = DBSCAN(eps=eps, min_samples=1, metric="cosine").fit(rows).labels_
    _, first, numbers = np.unique(found, return_index=True, return_inverse=True)
    by_appearance = np.argsort(np.argsort(first))
    labels: NDArray[np.int64] = by_appearance[numbers].astype(np.int64)
    return labels


def _notes(groups: Groups) -> tuple[str, ...]:
    total = len(groups.names)
    if total < 3 or groups.largest <= SWALLOWED * total or (groups.count > 1 and total < SEVERAL):
        return ()
    size = "all" if groups.count == 1 else f"{groups.largest} of the"
    return (
        f"eps = {groups.eps:g} puts {size} {total} classes into one group, so a pseudo-label says little;"
        " `semco labels tune` shows what a smaller eps gives.",
    )
