"""Retrofitting: move word vectors towards their neighbours in a graph (supplement of the paper, section B).

Minimises the objective of the paper,

    E(v) = sum_i alpha_i |v_i - v^_i|^2 + sum_(i,j) beta_ij |v_i - v_j|^2

where alpha_i > 0 for terms with a vector and alpha_i = 0 for terms that occur only in the graph, which get a vector in
this way. Setting the gradient to zero gives, with W = beta + beta^T and D its row sums,

    v_i = (alpha_i v^_i + sum_j W_ij v_j) / (alpha_i + D_i)

which is iterated (Jacobi). A step never increases E, because D + alpha + W is positive semi-definite.

The paper has alpha_i = 1 and follows the algorithm of Faruqui et al. (2015), where beta_ij = 1 / degree(i): every row
of the graph sums to 1, as in ConceptNet's code. Dividing row i by D_i gives the same iteration as undivided
weights with alpha_i = D_i, which is what `own_weights` returns. With alpha_i = 1 and undivided weights, a term with a
thousand edges (``man``, ``animal``) would be the mean of its neighbours.

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
_COLUMNS = 64  # columns are independent; slices of them keep the memory close to that of one matrix


def retrofit(
    graph: sparse.csr_array,
    vectors: Rows,
    alpha: Weights,
    iterations: int = 10,
    report: Callable[[int, int], None] | None = None,
) -> tuple[Rows, Mask]:
    """Return vectors (n, d) after ``iterations`` steps on ``graph`` (n, n; W above), and which terms have one (n,).

    Rows of ``vectors`` are used only where ``alpha`` (n,) is not 0. Terms without a path to such a term stay zero.
    """
    known = alpha > 0
    start, reached = initial_means(graph, known)
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


def initial_means(graph: sparse.csr_array, known: Mask) -> tuple[list[sparse.csr_array], Mask]:
    """Return matrices (n, n) that give graph-only terms their initial vectors, and which terms have one then (n,).

    The i-th matrix gives a vector to the terms that are i + 1 edges away from a known term: the weighted mean of their
    neighbours that already have one. An initial vector of zero would pull the neighbours to zero for many iterations.
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
    """Return E of ``vectors`` (n, d) in double precision; the symmetric ``graph`` stores every edge twice."""
    moved = ((vectors - original).astype(np.float64) ** 2).sum(axis=1)
    edges = graph.tocoo()
    apart = (vectors[edges.row] - vectors[edges.col]).astype(np.float64)
    return float((alpha * moved).sum() + 0.5 * (edges.data * (apart**2).sum(axis=1)).sum())


def adjacency(start: NDArray[Any], end: NDArray[Any], weight: NDArray[Any], size: int) -> sparse.csr_array:
    """Return the symmetric (size, size) weights; the weights of parallel edges are added."""
    one_way = sparse.csr_array((weight.astype(np.float32), (start, end)), shape=(size, size))
    return sparse.csr_array(one_way + one_way.T)


def own_weights(graph: sparse.csr_array, known: Mask, factor: float) -> Weights:
    """Return alpha (n,): ``factor`` times the summed edge weights of each known term (1 without edges), else 0."""
    degree = np.asarray(graph.sum(axis=1), dtype=np.float64)
    alpha: Weights = factor * np.where(degree > 0, degree, 1.0) * known
    return alpha
