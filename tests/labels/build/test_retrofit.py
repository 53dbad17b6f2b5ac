from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from scipy import sparse
from scipy.sparse.linalg import spsolve

from semco.labels.build import PRESETS
from semco.labels.build.retrofit import adjacency, objective, own_weights, retrofit


@pytest.fixture
def problem() -> tuple[sparse.csr_array, np.ndarray, np.ndarray]:
    """60 terms, 150 edges, a third of the terms without vectors."""
    rng = np.random.default_rng(0)
    start, end = rng.integers(0, 60, (2, 150))
    real = start != end
    graph = adjacency(start[real], end[real], rng.uniform(0.2, 2, real.sum()), 60)
    known = rng.random(60) < 2 / 3
    vectors = rng.normal(size=(60, 70)).astype(np.float32)  # wider than one slice of columns
    vectors[~known] = 0
    return graph, vectors, known


def solve(graph: sparse.csr_array, vectors: np.ndarray, alpha: np.ndarray) -> np.ndarray:
    """The minimiser of the paper's objective by a direct sparse solve of its normal equations."""
    laplacian = sparse.diags_array(np.asarray(graph.sum(axis=1), dtype=np.float64)) - graph.astype(np.float64)
    pull = sparse.diags_array(alpha)
    system = sparse.csc_array(pull + laplacian)
    right = alpha[:, None] * vectors.astype(np.float64)
    return np.stack([spsolve(system, right[:, i]) for i in range(vectors.shape[1])], axis=1)


@pytest.mark.parametrize("factor", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("papers", [True, False], ids=["the same for all", "by degree"])
def test_retrofitting_converges_to_the_minimiser(problem: tuple, factor: float, papers: bool) -> None:
    graph, vectors, known = problem
    alpha = factor * known if papers else own_weights(graph, known, factor)
    found, reached = retrofit(graph, vectors, alpha, iterations=600)
    linked = np.asarray(graph.sum(axis=1)) > 0
    np.testing.assert_array_equal(reached, known | linked)
    solvable = np.flatnonzero(reached)
    part = sparse.csr_array(graph[solvable][:, solvable])
    expected = solve(part, vectors[solvable], alpha[solvable])
    np.testing.assert_allclose(found[solvable], expected, atol=1e-5)


def test_the_papers_iterations_end_within_a_thousandth_of_the_minimum() -> None:
    """Most terms have no vector, as in the real graph, so vectors have to travel: ten iterations leave 1 %."""
    rng = np.random.default_rng(1)
    start, end = np.arange(1, 400), rng.integers(0, np.arange(1, 400))  # a tree, so every term is reached
    graph = adjacency(start, end, np.ones(399), 400)
    known = rng.random(400) < 0.3
    vectors = np.where(known[:, None], rng.normal(size=(400, 5)), 0).astype(np.float32)
    alpha = own_weights(graph, known, 1.0)
    least = objective(graph, vectors, alpha, solve(graph, vectors, alpha).astype(np.float32))

    def excess(iterations: int) -> float:
        return objective(graph, vectors, alpha, retrofit(graph, vectors, alpha, iterations)[0]) / least - 1

    assert excess(10) > 0.001
    assert 0 <= excess(PRESETS["paper"].settings.iterations) < 0.001


def test_the_objective_never_increases(problem: tuple) -> None:
    graph, vectors, known = problem
    alpha = own_weights(graph, known, 1.0)
    energies = [objective(graph, vectors, alpha, retrofit(graph, vectors, alpha, iterations=i)[0]) for i in range(40)]
    assert all(after <= before * (1 + 1e-6) for before, after in pairwise(energies))
    assert energies[-1] < 0.9 * energies[0]


def test_the_objective_by_hand() -> None:
    graph = adjacency(np.array([0]), np.array([1]), np.array([2.0]), 3)
    original = np.array([[1.0, 0.0], [0.0, 0.0], [0.0, 5.0]], dtype=np.float32)
    moved = np.array([[1.0, 1.0], [3.0, 1.0], [0.0, 4.0]], dtype=np.float32)
    # alpha_0 1^2 + alpha_2 1^2 + beta 2^2 with alpha 0.5 and 0.25, beta 2
    assert objective(graph, original, np.array([0.5, 0, 0.25]), moved) == pytest.approx(0.75 + 2 * 4)


def test_one_edge_by_hand() -> None:
    """v0 = (a0 + w v1) / (1 + w) and v1 = v0 for a graph-only neighbour: both end at a0."""
    graph = adjacency(np.array([0]), np.array([1]), np.array([3.0]), 2)
    vectors = np.array([[2.0, -4.0], [99.0, 99.0]], dtype=np.float32)
    found, reached = retrofit(graph, vectors, np.array([1.0, 0.0]), iterations=0)
    np.testing.assert_allclose(found, [[2, -4], [2, -4]])  # the first ring already is the mean of its neighbours
    assert reached.all()
    both, _ = retrofit(graph, vectors, np.ones(2), iterations=2000)
    # minimum of |v0-a|^2 + |v1-b|^2 + 3|v0-v1|^2: v0 = (4a + 3b) / 7
    np.testing.assert_allclose(both[0], (4 * vectors[0] + 3 * vectors[1]) / 7, rtol=1e-5)


def test_unreachable_terms_stay_zero_and_are_marked() -> None:
    graph = adjacency(np.array([0, 2]), np.array([1, 3]), np.ones(2), 5)
    found, reached = retrofit(graph, np.ones((5, 3), np.float32), np.array([1.0, 0, 0, 0, 0]))
    assert reached.tolist() == [True, True, False, False, False]
    np.testing.assert_array_equal(found[2:], 0)
    assert np.isfinite(found).all()


def test_a_term_without_edges_keeps_its_vector() -> None:
    graph = adjacency(np.array([0]), np.array([1]), np.ones(1), 3)
    vectors = np.eye(3, dtype=np.float32)
    found, _ = retrofit(graph, vectors, own_weights(graph, np.ones(3, bool), 1.0), iterations=5)
    np.testing.assert_allclose(found[2], vectors[2], atol=1e-7)


def test_the_graph_is_symmetric_and_parallel_edges_add_up() -> None:
    graph = adjacency(np.array([0, 1, 0]), np.array([1, 0, 2]), np.array([1.0, 2.0, 0.5]), 3)
    np.testing.assert_allclose(graph.toarray(), [[0, 3, 0.5], [3, 0, 0], [0.5, 0, 0]])


def test_every_known_term_keeps_half_of_its_own_vector() -> None:
    """Term 0 has edges of 1 and 3, term 3 has none, term 2 has no vector."""
    graph = adjacency(np.array([0, 0]), np.array([1, 2]), np.array([1.0, 3.0]), 4)
    known = np.array([True, True, False, True])
    np.testing.assert_allclose(own_weights(graph, known, 1.0), [4, 1, 0, 1])
    np.testing.assert_allclose(own_weights(graph, known, 0.5), [2, 0.5, 0, 0.5])
    vectors = np.array([[8.0], [0.0], [0.0], [5.0]], dtype=np.float32)
    once, _ = retrofit(graph, vectors, own_weights(graph, known, 1.0), iterations=1)
    # term 2 starts as its neighbour, 8; then (8 + (1 * 0 + 3 * 8) / 4) / 2 and (0 + 8) / 2
    np.testing.assert_allclose(once[:, 0], [7, 4, 8, 5])


def test_progress_counts_columns(problem: tuple) -> None:
    graph, vectors, known = problem
    reports: list[tuple[int, int]] = []
    retrofit(
        graph, vectors, known.astype(float), iterations=1, report=lambda done, total: reports.append((done, total))
    )
    assert reports == [(64, 70), (70, 70)]
