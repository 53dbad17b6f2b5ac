"""Combine two sets of vectors into one space (supplement of the paper, section B, "Combining the two sets").

The SVD is computed on the terms that both sets contain, with the columns of the sets side by side. Terms of only one
set are projected with that set's block of the projection.

Shapes: n terms, a and b the dimensions of the sets, d the dimension of the common space.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from semco.labels.store import unit_rows

Rows = NDArray[np.float32]
Mask = NDArray[np.bool_]
_CHUNK = 65_536


def combine(
    sets: list[tuple[Rows, Mask]], dim: int, power: float = 1.0, fitted: Mask | None = None
) -> tuple[Rows, Mask]:
    """Return L2-normalised rows (n, dim) for every term that any set knows, and which terms these are (n,).

    Each set is (rows (n, a), known (n,)). Each direction is scaled by its singular value to the ``power``: 1 is the
    plain projection, 0.5 the square root as in ConceptNet, 0 gives all directions the same scale. The SVD is computed
    on the ``fitted`` terms (n,) among those that all sets know, if there are any.
    """
    common = np.logical_and.reduce([known for _, known in sets])
    if fitted is not None and (common & fitted).any():
        common = common & fitted
    if not common.any():  # nothing to align the sets by: use only the larger set
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
    """Return (m, a + b) columns of all sets, zero where a set does not know a term."""
    return np.concatenate([matrix[rows] * known[rows, None] for matrix, known in sets], axis=1)


def _projection(sets: list[tuple[Rows, Mask]], common: Mask, dim: int, power: float) -> Rows:
    """Return (a + b, d) right singular vectors of the common rows, computed as eigenvectors of their Gram matrix."""
    width = sum(matrix.shape[1] for matrix, _ in sets)
    gram = np.zeros((width, width))
    for begin in range(0, len(common), _CHUNK):
        rows = slice(begin, begin + _CHUNK)
        block = _side_by_side(sets, rows)[common[rows]]
        gram += block.T.astype(np.float64) @ block
    values, vectors = np.linalg.eigh(gram)
    values, vectors = values[::-1][:dim], vectors[:, ::-1][:, :dim]
    values = np.maximum(values, values[0] * 1e-12)  # keeps negative powers of tiny eigenvalues finite
    signs = np.sign(vectors[np.abs(vectors).argmax(axis=0), np.arange(vectors.shape[1])])
    projection: Rows = (vectors * signs * values ** ((power - 1) / 2)).astype(np.float32)
    return projection
