"""Retrofitting: move word vectors towards their neighbours in a graph (supplement, section B).

Minimises, as the paper does,

    E(v) = sum_i alpha_i |v_i - v^_i|^2 + sum_(i,j) beta_ij |v_i - v_j|^2

with alpha_i > 0 for terms that have a vector and 0 for terms that only the graph knows, so these get one too.
NOTE: the paper says alpha_i = 1, under which a term with a thousand edges (``man``, ``animal``) becomes the mean of its
neighbours; as ConceptNet does, ours grows with the term's edges (`hold`), so that every term keeps as much of itself.
Setting the gradient to zero gives, with W = beta + beta^T and D its row sums,

    v_i = (alpha_i v^_i + sum_j W_ij v_j) / (alpha_i + D_i)

which is iterated (Jacobi). A step never raises E, because D + alpha + W is positive semi-definite.

Shapes: n terms, d embedding size.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

Rows = NDArray[np.float32]
Mask = NDArray[np.bool_]
Weights = NDArray[np.float64]
_COLUMNS = 64  # columns are independent: in slices, memory stays near that of the one matrix


def retrofit(
    graph: sparse.csr_array,
    vectors: Rows,
    alpha: Weights,
    iterations: int = 10,
    report: Callable[[int, int], None] | None = None,
) -> tuple[Rows, Mask]:
    """Vectors (n, d) after ``iterations`` steps on ``graph`` (n, n; W above), and which terms have one.

    ``vectors`` counts only where ``alpha`` (n,) is not 0. Terms that no path joins to such a one stay zero.
    """
    known = alpha > 0
    start, reached = spread(graph, known)
    scale = sparse.diags_array(1.0 / (alpha + graph.sum(axis=1) + ~reached))
    step = sparse.csr_array(scale @ graph, dtype=np.float32)
    pull = (scale.diagonal() * alpha).astype(np.float32)[:, None]
    result = np.empty_like(vectors)
    for left in range(0, vectors.shape[1], _COLUMNS):
        original = np.where(known[:, None], vectors[:, left : left + _COLUMNS], np.float32(0))
        current = original
        for ring in start:
            current = current + ring @ current
        for _ in range(iterations):
            current = step @ current + pull * original
        result[:, left : left + _COLUMNS] = current
        if report:
            report(min(left + _COLUMNS, vectors.shape[1]), vectors.shape[1])
    result[~reached] = 0
    return result, reached


def spread(graph: sparse.csr_array, known: Mask) -> tuple[list[sparse.csr_array], Mask]:
    """How graph-only terms get a first vector, ring by ring: the mean of the neighbours reached before.

    Starting them at zero instead would pull their neighbours to zero for many iterations.
    """
    reached = known.copy()
    rings: list[sparse.csr_array] = []
    while True:
        weight = graph @ reached.astype(np.float32)
        ring = (weight > 0) & ~reached
        if not ring.any():
            return rings, reached
        share = np.divide(1, weight, out=np.zeros_like(weight), where=ring)
        inside = sparse.diags_array(reached.astype(np.float32))
        rings.append(sparse.csr_array(sparse.diags_array(share) @ graph @ inside, dtype=np.float32))
        reached = reached | ring


def objective(graph: sparse.csr_array, original: Rows, alpha: Weights, vectors: Rows) -> float:
    """E of ``vectors`` (n, d), in double precision; every edge is stored twice in the symmetric ``graph``."""
    moved = ((vectors - original).astype(np.float64) ** 2).sum(axis=1)
    edges = graph.tocoo()
    apart = (vectors[edges.row] - vectors[edges.col]).astype(np.float64)
    return float((alpha * moved).sum() + 0.5 * (edges.data * (apart**2).sum(axis=1)).sum())


def adjacency(start: NDArray[Any], end: NDArray[Any], weight: NDArray[Any], size: int) -> sparse.csr_array:
    """Symmetric (size, size) weights; parallel edges add up."""
    one_way = sparse.csr_array((weight.astype(np.float32), (start, end)), shape=(size, size))
    return sparse.csr_array(one_way + one_way.T)


def hold(graph: sparse.csr_array, known: Mask, factor: float) -> Weights:
    """alpha (n,): a known term's own vector counts ``factor`` times as much as all its edges together."""
    degree = np.asarray(graph.sum(axis=1), dtype=np.float64)
    alpha: Weights = factor * np.where(degree > 0, degree, 1.0) * known
    return alpha
