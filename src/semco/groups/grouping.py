"""Groups of classes that look alike.

Two rules. "dbscan" is the paper's (section 4): classes within the cosine distance eps of each other are in one group,
and so are chains of such classes. "evidence" needs a store with a graph: every two classes of a group have at least
the evidence 2 - eps (`evidence`), so that nothing is chained (complete linkage).

Shapes: K classes, d embedding size, Q groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from semco.errors import UserError, nearest
from semco.labels.embeddings import LabelEmbeddings, Matrix
from semco.labels.store import unit_rows

Rule = Literal["evidence", "dbscan"]
Pairs = Sequence[Sequence[str]]  # names of classes that a person puts together or apart

MOST_EVIDENCE = 2.0  # of two classes; more counts as much
EVIDENCE_EPS = 0.9  # evidence 1.1; docs/lab/labels.md: chosen on halves of the lists of look-alikes
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
    rule: Rule = "dbscan"

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
    embeddings: LabelEmbeddings,
    eps: float | None = None,
    rule: Rule | None = None,
    together: Pairs = (),
    apart: Pairs = (),
) -> Groups:
    """Return the groups at ``eps``: None is the rule's own, 0 makes every class its own group.

    Without a rule it is "evidence" if the source has evidence and eps is None, otherwise "dbscan": a number for eps is
    a cosine distance. The groups of the classes in one entry of ``together`` are merged; of the classes in one entry of
    ``apart`` all but the first leave a group that they share with another one of the entry.
    """
    rule = choose_rule(embeddings, eps, rule)
    radius = default_eps(embeddings, rule) if eps is None else float(eps)
    if rule == "evidence":
        ids = evidence_group_ids(embeddings, radius)
    else:
        ids = find_group_ids(embeddings.names, embeddings.matrix, radius)
    ids = in_order(correct_group_ids(ids, embeddings.names, together, apart))
    groups = Groups(embeddings.names, ids, radius, rule=rule)
    return replace(groups, notes=_notes(groups))


def choose_rule(embeddings: LabelEmbeddings, eps: float | None, rule: Rule | None) -> Rule:
    """Return the rule that is used: "evidence" needs a source with evidence, and a number for eps means "dbscan"."""
    if embeddings.evidence is None:
        return "dbscan"
    return rule or ("evidence" if eps is None else "dbscan")


def default_eps(embeddings: LabelEmbeddings, rule: Rule) -> float:
    """Return the eps of a rule if none was given."""
    return EVIDENCE_EPS if rule == "evidence" else embeddings.default_eps


def evidence_group_ids(embeddings: LabelEmbeddings, eps: float) -> NDArray[np.int64]:
    """Return the group id of each class (K,): complete linkage of the distance 2 - evidence, cut at ``eps``."""
    _check_eps(eps)
    if eps == 0 or len(embeddings.names) == 1:
        return np.arange(len(embeddings.names), dtype=np.int64)
    return link_completely(embeddings.names, evidence_distances(embeddings), eps)


def link_completely(names: Sequence[str], distance: NDArray[np.float64], most: float) -> NDArray[np.int64]:
    """Return group ids (K,): every two classes of a group have at most the distance ``most`` (complete linkage).

    Rows of ``distance`` (K, K) are taken in the alphabetical order of their names, so that any order of the classes
    gives the same groups.
    """
    from scipy.cluster.hierarchy import fcluster, linkage
    from scipy.spatial.distance import squareform

    order = np.asarray(sorted(range(len(names)), key=lambda i: names[i]), dtype=np.int64)
    found = np.empty(len(names), dtype=np.int64)
    merges = linkage(squareform(distance[np.ix_(order, order)], checks=False), method="complete")
    found[order] = fcluster(merges, most, criterion="distance")
    return found


def evidence_distances(embeddings: LabelEmbeddings) -> NDArray[np.float64]:
    """Return 2 - evidence (K, K), not below 0."""
    assert embeddings.evidence is not None
    total = embeddings.evidence.total
    distance: NDArray[np.float64] = np.maximum(MOST_EVIDENCE - (total + total.T) / 2, 0)
    np.fill_diagonal(distance, 0)
    return distance


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


def _check_eps(eps: float) -> None:
    if not 0 <= eps <= 2:
        raise UserError(f"eps = {eps:g} is not a cosine distance; choose a value between 0 (no groups) and 2.")


def find_group_ids(names: Sequence[str], matrix: Matrix, eps: float) -> NDArray[np.int64]:
    """Return the group id of each class (K,) by DBSCAN, in which a single class is dense enough (min_samples = 1).

    Its groups are then the classes that chains of steps of at most ``eps`` connect, which are found here because
    scikit-learn takes more than a second to import. Rows are taken in the alphabetical order of their names, so that
    any order of the classes gives the same groups.
    """
    _check_eps(eps)
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
        " information; choose a smaller eps (`semco labels tune` compares them).",
    )
