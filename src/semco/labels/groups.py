"""Groups of classes whose label vectors are close (section 4 of the paper: DBSCAN with cosine distance).

Shapes: K classes, d embedding size, Q groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from semco.errors import UserError
from semco.labels.embeddings import LabelEmbeddings, Matrix

LARGE_SHARE = 0.5  # a group with a larger share of the classes gets a note
FEW_CLASSES = 6  # with fewer classes, most of them may well be look-alikes


@dataclass(frozen=True)
class Groups:
    """The group of each class."""

    names: tuple[str, ...]
    group_ids: NDArray[np.int64]  # (K,) group id of each class, 0..Q-1 in the order of first appearance
    eps: float
    notes: tuple[str, ...] = ()  # for the user: a group that is too large

    @property
    def members(self) -> tuple[tuple[str, ...], ...]:
        """The class names of each group."""
        lists: list[list[str]] = [[] for _ in range(self.count)]
        for name, group_id in zip(self.names, self.group_ids.tolist(), strict=True):
            lists[group_id].append(name)
        return tuple(map(tuple, lists))

    @property
    def count(self) -> int:
        """The number of groups Q."""
        return int(self.group_ids.max()) + 1

    @property
    def largest(self) -> int:
        """The number of classes in the largest group."""
        return int(np.bincount(self.group_ids).max())


def group_classes(embeddings: LabelEmbeddings, eps: float | Literal["auto"] = "auto") -> Groups:
    """Return the groups at ``eps``: "auto" is the default of the label source, 0 makes every class its own group."""
    radius = embeddings.default_eps if eps == "auto" else float(eps)
    groups = Groups(embeddings.names, find_group_ids(embeddings.names, embeddings.matrix, radius), radius)
    return replace(groups, notes=_notes(groups))


def find_group_ids(names: Sequence[str], matrix: Matrix, eps: float) -> NDArray[np.int64]:
    """Return the group id of each class (K,).

    Rows are clustered in the alphabetical order of their names, so that any order of the classes gives the same groups.
    """
    if not 0 <= eps <= 2:
        raise UserError(f"eps = {eps:g} is not a cosine distance; choose a value between 0 (no groups) and 2.")
    if eps == 0:
        return np.arange(len(names), dtype=np.int64)
    from sklearn.cluster import DBSCAN

    order = np.asarray(sorted(range(len(names)), key=lambda i: names[i]), dtype=np.int64)
    found = np.empty(len(names), dtype=np.int64)
    rows = matrix[order].astype(np.float64)
    found[order] = DBSCAN(eps=eps, min_samples=1, metric="cosine").fit(rows).labels_
    _, first, numbers = np.unique(found, return_index=True, return_inverse=True)
    by_appearance = np.argsort(np.argsort(first))
    ids: NDArray[np.int64] = by_appearance[numbers].astype(np.int64)
    return ids


def _notes(groups: Groups) -> tuple[str, ...]:
    total = len(groups.names)
    if total < 3 or groups.largest <= LARGE_SHARE * total or (groups.count > 1 and total < FEW_CLASSES):
        return ()
    size = "all" if groups.count == 1 else f"{groups.largest} of the"
    return (
        f"eps = {groups.eps:g} puts {size} {total} classes into one group, so a group carries little"
        " information; choose a smaller eps (`semco labels tune` compares them).",
    )
