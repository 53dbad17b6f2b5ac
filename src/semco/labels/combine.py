"""Two sets of vectors into one space (supplement, section B, "Combining the two sets").

On the common vocabulary the columns of both sets are put side by side and reduced by SVD. Terms of one set
only go through that set's own block of the projection, so they are not lost.

Shapes: n terms, a and b the sets' dimensions, d the common one.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from semco.labels.store import unit_rows

Rows = NDArray[np.float32]
Mask = NDArray[np.bool_]
_CHUNK = 65_536


def combine(sets: list[tuple[Rows, Mask]], dim: int, power: float = 1.0) -> tuple[Rows, Mask]:
    """L2-normalised rows (n, dim) for every term that any set knows, and which terms these are.

    Each set is (rows (n, a), known (n,)). ``power`` weighs a direction by its singular value to that power: 1
    is the projection itself, 0.5 the square root ConceptNet takes, 0 makes all directions equal.
    """
    common = np.logical_and.reduce([known for _, known in sets])
    if not common.any():  # nothing to align by: the larger set stands alone
        sets = [max(sets, key=lambda one: int(one[1].sum()))]
        common = sets[0][1]
    projection = _projection(sets, common, dim, power)
    known = np.logical_or.reduce([present for _, present in sets])
    result = np.zeros((len(known), projection.shape[1]), dtype=np.float32)
    for begin in range(0, len(known), _CHUNK):
        rows = slice(begin, begin + _CHUNK)
        result[rows] = unit_rows(_side_by_side(sets, rows) @ projection)
    return result, known


def _side_by_side(sets: list[tuple[Rows, Mask]], rows: slice) -> Rows:
    """(m, a + b) with zeros for what a set does not know."""
    return np.concatenate([matrix[rows] * known[rows, None] for matrix, known in sets], axis=1)


def _projection(sets: list[tuple[Rows, Mask]], common: Mask, dim: int, power: float) -> Rows:
    """(a + b, d): right singular vectors of the common rows, as eigenvectors of their Gram matrix."""
    width = sum(matrix.shape[1] for matrix, _ in sets)
    gram = np.zeros((width, width))
    for begin in range(0, len(common), _CHUNK):
        rows = slice(begin, begin + _CHUNK)
        block = _side_by_side(sets, rows)[common[rows]]
        gram += block.T.astype(np.float64) @ block
    values, vectors = np.linalg.eigh(gram)
    values, vectors = values[::-1][:dim], vectors[:, ::-1][:, :dim]
    values = np.maximum(values, values[0] * 1e-12)  # directions without content stay finite
    signs = np.sign(vectors[np.abs(vectors).argmax(axis=0), np.arange(vectors.shape[1])])
    projection: Rows = (vectors * signs * values ** ((power - 1) / 2)).astype(np.float32)
    return projection
