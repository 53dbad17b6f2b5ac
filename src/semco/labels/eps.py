"""The default eps of a store, from the distances between siblings in the graph.

The scale of cosines differs between stores, so the same eps has a different effect in each. Siblings make stores
comparable: the children of one IsA parent (trout, salmon and eel of fish) are as similar as the members of a group
should be.

Shapes: n terms, d embedding size, m IsA edges.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

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
