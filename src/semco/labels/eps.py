"""Distances between label vectors, and the eps that suits their scale."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from semco.labels.embeddings import Matrix

# Pairs in the paper's groups of CIFAR-100 (table "class groups obtained by clustering the retrofitted embeddings").
REFERENCE_SHARE = 9 / 4950
# With more pairs than half the number of classes a class has more than one neighbour on average, and groups chain.
MOST_PAIRS_PER_CLASS = 0.5
ROWS_AT_A_TIME = 512


def distances(matrix: Matrix) -> NDArray[np.float64]:
    """Return the cosine distances (K, K) of L2-normalised rows."""
    rows = matrix.astype(np.float64)
    found: NDArray[np.float64] = np.clip(1.0 - rows @ rows.T, 0.0, 2.0)
    np.fill_diagonal(found, 0.0)
    return (found + found.T) / 2


def eps_for_share(matrix: Matrix, share: float = REFERENCE_SHARE) -> float:
    """Return the eps at which this share of all pairs of classes are neighbours, at most half as many as classes.

    This transfers eps between sources with different scales of cosines. The number of pairs is rounded down, so that
    ten classes, which have 45 pairs, are not grouped. The limit matters from 551 classes on.
    """
    pairs = _pair_distances(matrix)
    if not pairs.size:
        return 0.0
    near = min(int(share * len(pairs)), int(MOST_PAIRS_PER_CLASS * len(matrix)), len(pairs) - 1)
    pairs.partition(near)
    below = float(pairs[:near].max()) if near else 0.0
    return (below + float(pairs[near])) / 2


def _pair_distances(matrix: Matrix) -> NDArray[np.float64]:
    """Return the cosine distances (K (K - 1) / 2,) of the pairs of L2-normalised rows.

    Some rows at a time, because with 10,000 classes a table of all pairs has 800 MB, and every step of its computation
    would need another one.
    """
    rows, parts = matrix.astype(np.float64), [np.zeros(0)]
    for start in range(0, len(rows), ROWS_AT_A_TIME):
        block = 1.0 - rows[start : start + ROWS_AT_A_TIME] @ rows[start:].T
        parts.append(block[np.triu_indices(len(block), k=1, m=block.shape[1])])
    return np.clip(np.concatenate(parts), 0.0, 2.0)


Pairs = NDArray[np.int64]

QUANTILE = 0.1  # of the distances to the nearest sibling; the nearest are look-alikes, the others are of one kind
FAMILY_SIZE = (5, 50)  # with more children a parent is too general (thing, person)
FREQUENT = 50_000  # terms used; the vectors of rarer terms are means of their neighbours, which makes them too close
FALLBACK = 0.2  # the value of the paper, if the graph has no families


def sibling_eps(matrix: NDArray[np.float32], known: NDArray[np.bool_], is_a: Pairs) -> float:
    """Return a quantile (`QUANTILE`) of the cosine distance to the nearest sibling, over all terms with siblings.

    ``matrix`` (n, d) has unit rows in order of frequency; ``is_a`` (m, 2) has the child and parent of each edge.
    """
    nearest = sibling_distances(matrix, is_a[known[is_a[:, 0]] & (is_a[:, 0] < FREQUENT)])
    found = nearest[np.isfinite(nearest)]
    return round(float(np.quantile(found, QUANTILE)), 3) if len(found) else FALLBACK


def sibling_distances(matrix: NDArray[np.float32], is_a: Pairs) -> NDArray[np.float64]:
    """Return the cosine distance (n,) of each term to its nearest sibling, infinite without siblings."""
    nearest = np.full(len(matrix), np.inf)
    for children in families(is_a):
        rows = matrix[children]
        distances = 1.0 - rows @ rows.T
        np.fill_diagonal(distances, np.inf)
        nearest[children] = np.minimum(nearest[children], distances.min(axis=1))
    return nearest


def families(is_a: Pairs) -> Iterator[NDArray[np.int64]]:
    """Yield the children of each parent whose number of children is within `FAMILY_SIZE`."""
    pairs = np.unique(is_a[:, ::-1], axis=0)  # sorted by parent, then child
    for children in np.split(pairs[:, 1], np.flatnonzero(np.diff(pairs[:, 0])) + 1):
        if FAMILY_SIZE[0] <= len(children) <= FAMILY_SIZE[1]:
            yield children
