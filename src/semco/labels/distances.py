"""Distances between label vectors, and the eps that suits their scale.

Shapes: K classes, d embedding size.
"""

from __future__ import annotations

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
