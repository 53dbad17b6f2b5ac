"""Graphs, diffusion and weights against dense algebra and numbers worked out by hand.

Shapes: N images, F features, k neighbours, K classes.
"""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from semco.pseudo_labels import propagation
from semco.pseudo_labels.propagation import affinity_graph, certain_labels, class_weights, diffuse, nearest_neighbours


def random_features(count: int, size: int = 6) -> Tensor:
    return torch.randn(count, size, generator=torch.Generator().manual_seed(count), dtype=torch.float64)


def slow_graph(features: Tensor, k: int, gamma: float) -> Tensor:
    """Eq. 8 entry by entry, dense."""
    rows = features.tolist()
    count = len(rows)

    def cosine(a: list[float], b: list[float]) -> float:
        return sum(x * y for x, y in zip(a, b, strict=True)) / (math.hypot(*a) * math.hypot(*b))

    A = torch.zeros(count, count, dtype=torch.float64)
    for i in range(count):
        others = sorted((j for j in range(count) if j != i), key=lambda j: -cosine(rows[i], rows[j]))
        for j in others[:k]:
            A[i, j] = max(0.0, cosine(rows[i], rows[j])) ** gamma
    W = A + A.T
    degree = W.sum(dim=1)
    return torch.stack(
        [torch.stack([W[i, j] / (degree[i] * degree[j]).sqrt() for j in range(count)]) for i in range(count)]
    )


@pytest.mark.parametrize("chunk", [1, 70, 2**24])
def test_neighbours_in_chunks_of_any_size(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(propagation, "CHUNK", chunk)
    features = random_features(23)
    cosines, index = nearest_neighbours(features, 4)
    unit = torch.nn.functional.normalize(features, dim=1)
    dense = (unit @ unit.T).fill_diagonal_(-2)
    expected = dense.topk(4)
    assert torch.equal(index, expected.indices)
    torch.testing.assert_close(cosines, expected.values)


def test_twins_are_neighbours_but_nobody_of_itself() -> None:
    features = torch.tensor([[1.0, 0.0], [2.0, 0.0], [0.0, 1.0]])
    cosines, index = nearest_neighbours(features, 10)  # there are only two others
    assert index.shape == (3, 2)
    assert index[:2, 0].tolist() == [1, 0]
    assert cosines[:2, 0].tolist() == [1.0, 1.0]
    assert not (index == torch.arange(3)[:, None]).any()


@pytest.mark.parametrize(("k", "gamma"), [(1, 1.0), (4, 3.0), (18, 3.0)])
def test_graph_against_a_loop(k: int, gamma: float) -> None:
    features = random_features(19)
    graph = affinity_graph(features, k, gamma).to_dense()
    torch.testing.assert_close(graph, slow_graph(features, k, gamma))
    torch.testing.assert_close(graph, graph.T)
    assert graph.diagonal().abs().sum() == 0


@pytest.mark.parametrize("alpha", [0.0, 0.5, 0.99])
def test_diffusion_is_the_dense_solution(alpha: float) -> None:
    graph = affinity_graph(random_features(40), 5, 3.0)
    seeds = torch.zeros(40, 3, dtype=torch.float64)
    seeds[torch.arange(6), torch.arange(6) % 3] = 1
    dense = torch.linalg.solve(torch.eye(40, dtype=torch.float64) - alpha * graph.to_dense(), seeds)
    torch.testing.assert_close(diffuse(graph, seeds, alpha, 200, tolerance=1e-12), dense, rtol=1e-8, atol=1e-10)


def test_conjugate_gradients_converge() -> None:
    """The error falls with the steps; within N of them the solution is exact."""
    graph = affinity_graph(random_features(40), 5, 3.0)
    seeds = torch.eye(40, dtype=torch.float64)[:, :3]
    dense = torch.linalg.solve(torch.eye(40, dtype=torch.float64) - 0.99 * graph.to_dense(), seeds)
    errors = [float((diffuse(graph, seeds, 0.99, n, tolerance=0) - dense).abs().max()) for n in (1, 5, 20, 60)]
    assert errors == sorted(errors, reverse=True)
    assert errors[2] < 0.05 * errors[0]
    assert errors[3] < 1e-8 * errors[0]


def test_a_class_without_seeds_stays_empty() -> None:
    graph = affinity_graph(random_features(10), 3, 3.0)
    seeds = torch.zeros(10, 2, dtype=torch.float64)
    seeds[0, 0] = 1
    scores = diffuse(graph, seeds, 0.9, 50)
    assert torch.isfinite(scores).all()
    assert scores[:, 1].tolist() == [0.0] * 10


def test_labels_follow_chains_of_neighbours() -> None:
    """Two half-circles of points, one label each: the nearest labelled point is often wrong, the chain is right."""
    angle = torch.linspace(0.0, 1.0, 30)
    one = torch.stack([torch.cos(angle), torch.sin(angle), torch.zeros(30)], dim=1)
    two = torch.stack([torch.cos(angle), torch.sin(angle), torch.full((30,), 0.4)], dim=1)
    features = torch.cat([one, two])
    seeds = torch.zeros(60, 2)
    seeds[0, 0] = seeds[59, 1] = 1  # opposite ends
    labels, weights = certain_labels(diffuse(affinity_graph(features, 2, 3.0), seeds, 0.99, 300))
    assert labels.tolist() == [0] * 30 + [1] * 30
    nearest = torch.nn.functional.normalize(features, dim=1) @ torch.nn.functional.normalize(features[[0, 59]], dim=1).T
    assert nearest.argmax(dim=1).tolist() != labels.tolist()
    assert float(weights.min()) > 0.9


def test_entropy_weights_by_hand() -> None:
    scores = torch.tensor([[2.0, 0.0, 0.0], [1.0, 1.0, 1.0], [0.0, 3.0, 3.0], [0.0, 0.0, 0.0], [-1.0, 0.2, 0.6]])
    labels, weights = certain_labels(scores)
    quarters = -(0.25 * math.log(0.25) + 0.75 * math.log(0.75))  # negative scores count as none
    expected = [1.0, 0.0, 1 - math.log(2) / math.log(3), 0.0, 1 - quarters / math.log(3)]
    assert weights.tolist() == pytest.approx(expected, abs=1e-6)
    assert labels[[0, 4]].tolist() == [0, 2]


def test_class_weights_by_hand() -> None:
    # Eight images: 4 of class 0, 2 of class 1, none of class 2, 2 of class 3; equal classes would have 2 each.
    weights = class_weights(torch.tensor([0, 0, 0, 0, 1, 1, 3, 3]), 4)
    assert weights.tolist() == [0.5, 1.0, 0.0, 1.0]
    assert class_weights(torch.arange(5), 5).tolist() == [1.0] * 5
