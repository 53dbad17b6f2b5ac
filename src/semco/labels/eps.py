"""A store's own default eps, from how near to each other things of one kind lie in it.

Cosines of every store live on a scale of their own, so a fixed eps means something else in each. What carries over is
kinship: the children of one parent in the graph (trout, salmon and eel under fish) are as alike as the members of a
label group should be.

Shapes: n terms, d embedding size, m IsA edges.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

Pairs = NDArray[np.int64]

SHARE = 0.3  # a class joins another if it is nearer than most things are to their nearest sibling
FAMILY = (5, 50)  # fewer children say little, more are no kind of their own (thing, person)
FREQUENT = 50_000  # terms: the rare ones' vectors are their neighbours' means, too near to them
FALLBACK = 0.2  # the paper's, where the graph has no families


def sibling_eps(matrix: NDArray[np.float32], known: NDArray[np.bool_], is_a: Pairs) -> float:
    """The quantile `SHARE` of the cosine distance to the nearest sibling, over all terms that have one.

    ``matrix`` (n, d) has unit rows in order of frequency; ``is_a`` (m, 2) holds child and parent.
    """
    nearest = np.full(len(matrix), np.inf)
    for children in families(is_a[known[is_a[:, 0]] & (is_a[:, 0] < FREQUENT)]):
        rows = matrix[children]
        distances = 1.0 - rows @ rows.T
        np.fill_diagonal(distances, np.inf)
        nearest[children] = np.minimum(nearest[children], distances.min(axis=1))
    found = nearest[np.isfinite(nearest)]
    return round(float(np.quantile(found, SHARE)), 3) if len(found) else FALLBACK


def families(is_a: Pairs) -> Iterator[NDArray[np.int64]]:
    """The children of each parent that has neither too few nor too many."""
    pairs = np.unique(is_a[:, ::-1], axis=0)  # by parent, then child
    for children in np.split(pairs[:, 1], np.flatnonzero(np.diff(pairs[:, 0])) + 1):
        if FAMILY[0] <= len(children) <= FAMILY[1]:
            yield children
