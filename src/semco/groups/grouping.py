"""Groups of classes with similar label vectors, by DBSCAN (section 4 of the paper).

Classes within the cosine distance eps of each other are in one group, and so are chains of such classes.

Shapes: K classes, d embedding size, Q groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from semco.data.names import is_none_of_these
from semco.errors import UserError, nearest
from semco.labels.embeddings import LabelEmbeddings, Matrix
from semco.labels.store import unit_rows

Pairs = Sequence[Sequence[str]]  # names of classes that the user puts together or apart

LARGE_SHARE = 0.5  # a group with a larger share of the classes gets a note
ROWS = 1000  # rows of cosines at a time: those of 20,000 classes would take 3 GB
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


def group_classes(
    embeddings: LabelEmbeddings, eps: float | None = None, together: Pairs = (), apart: Pairs = ()
) -> Groups:
    """Return the groups at ``eps``: None is the source's own, 0 makes every class its own group.

    The groups of the classes in one entry of ``together`` are merged. If classes in one entry of ``apart`` share a
    group, all of them but the first leave it.
    """
    radius = embeddings.default_eps if eps is None else float(eps)
    ids = find_group_ids(embeddings.names, embeddings.matrix, radius)
    ids = correct_group_ids(ids, embeddings.names, together, apart)
    none = [is_none_of_these(name) for name in embeddings.names]  # "none of these" is in no group, whatever its vector
    ids = in_order(np.where(none, ids.max() + 1 + np.arange(len(ids)), ids))
    groups = Groups(embeddings.names, ids, radius)
    return replace(groups, notes=_notes(groups))


def correct_group_ids(ids: NDArray[np.int64], names: Sequence[str], together: Pairs, apart: Pairs) -> NDArray[np.int64]:
    """Return the group ids after the corrections of a person."""
    ids = ids.copy()
    for entry in together:
        places = _places(entry, names, "together")
        ids[np.isin(ids, ids[places])] = ids[places[0]]
    for entry in apart:
        places = _places(entry, names, "apart")
        for i in places[1:]:
            if (ids[places] == ids[i]).sum() > 1:
                ids[i] = ids.max() + 1
    return ids


def _places(entry: Sequence[str], names: Sequence[str], field: str) -> list[int]:
    unknown = [name for name in entry if name not in names]
    if unknown:
        raise UserError(f"labels.{field}: {unknown[0]!r} is no class name{nearest(unknown[0], names) or '.'}")
    return [names.index(name) for name in entry]


def in_order(ids: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the ids numbered from 0 in the order of first appearance."""
    _, first, numbers = np.unique(ids, return_index=True, return_inverse=True)
    by_appearance = np.argsort(np.argsort(first))
    return by_appearance[numbers].astype(np.int64)


def find_group_ids(names: Sequence[str], matrix: Matrix, eps: float) -> NDArray[np.int64]:
    """Return the group id of each class (K,) by DBSCAN, in which a single class is dense enough (min_samples = 1).

    Its groups are then the classes that chains of steps of at most ``eps`` connect, which are found here because
    scikit-learn takes more than a second to import. Rows are taken in the alphabetical order of their names, so that
    any order of the classes gives the same groups.
    """
    if not 0 <= eps <= 2:
        raise UserError(f"eps = {eps:g} is not a cosine distance; choose a value between 0 (no groups) and 2.")
    if eps == 0:
        return np.arange(len(names), dtype=np.int64)
    from scipy.sparse import csr_array, vstack
    from scipy.sparse.csgraph import connected_components

    order = np.asarray(sorted(range(len(names)), key=lambda i: names[i]), dtype=np.int64)
    rows = unit_rows(matrix[order].astype(np.float64))
    parts = (rows[start : start + ROWS] for start in range(0, len(rows), ROWS))
    near = vstack([csr_array(1 - part @ rows.T <= eps) for part in parts])  # (K, K)
    found = np.empty(len(names), dtype=np.int64)
    found[order] = connected_components(near, directed=False)[1]
    return in_order(found)


def _notes(groups: Groups) -> tuple[str, ...]:
    total = len(groups.names)
    if total < 3 or groups.largest <= LARGE_SHARE * total or (groups.count > 1 and total < FEW_CLASSES):
        return ()
    size = "all" if groups.count == 1 else f"{groups.largest} of the"
    return (
        f"eps = {groups.eps:g} puts {size} {total} classes into one group, so a group carries little"
        " information; choose a smaller labels.eps (`semco labels groups` shows what it does).",
    )
