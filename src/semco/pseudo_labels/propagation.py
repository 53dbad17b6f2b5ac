"""Spread labels along a graph of nearest neighbours (Iscen et al. 2019, after Zhou et al. 2004).

Shapes: N images, F features, k neighbours, K classes.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

# Number of similarities in memory at a time: 64 MB.
CHUNK = 2**24


@torch.no_grad()
def nearest_neighbours(features: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Return cosines (N, k) and indices (N, k) of the k nearest other images, for features (N, F) of any length.

    Exact, in chunks of rows; fewer than k if there are not as many other images.
    """
    unit, k = F.normalize(features, dim=-1), min(k, len(features) - 1)
    rows = torch.arange(len(unit), device=unit.device)
    cosines, index = [], []
    for chunk in rows.split(max(1, CHUNK // len(unit))):
        similarity = unit[chunk] @ unit.T
        similarity[torch.arange(len(chunk)), chunk] = -torch.inf  # an image is not its own neighbour
        top = similarity.topk(k, dim=-1)
        cosines.append(top.values)
        index.append(top.indices)
    return torch.cat(cosines), torch.cat(index)


@torch.no_grad()
def affinity_graph(features: Tensor, k: int, gamma: float) -> Tensor:
    """Return D^-1/2 (A + A^T) D^-1/2 of features (N, F), sparse (N, N) (Eq. 8 and the text below it).

    a_ij = max(0, cos)^gamma for the k nearest neighbours j of i, else 0.
    """
    cosines, columns = nearest_neighbours(features, k)
    count = len(features)
    rows = torch.arange(count, device=features.device).repeat_interleave(columns.shape[1])
    weights, columns = cosines.clamp(min=0).pow(gamma).flatten(), columns.flatten()
    degree = weights.new_zeros(count).index_add_(0, rows, weights).index_add_(0, columns, weights)
    shrink = torch.where(
        degree > 0, degree, torch.ones_like(degree)
    ).rsqrt()  # avoids 0 / 0 for an image without neighbours
    weights = weights * shrink[rows] * shrink[columns]
    both = torch.stack([torch.cat([rows, columns]), torch.cat([columns, rows])])
    graph = torch.sparse_coo_tensor(both, weights.repeat(2), (count, count), check_invariants=False)
    return graph.coalesce()


@torch.no_grad()
def diffuse(graph: Tensor, seeds: Tensor, alpha: float, iterations: int, tolerance: float = 1e-6) -> Tensor:
    """Return Z of (I - alpha W) Z = Y (Eq. 10) by conjugate gradients, for W sparse (N, N) and Y (N, K): (N, K).

    All columns at once, each with its own step lengths; stops early when every residual is small relative to Y.
    """
    solution, residual = torch.zeros_like(seeds), seeds.clone()
    direction, norm = residual, residual.square().sum(dim=0)
    enough = tolerance**2 * norm
    for _ in range(iterations):
        image = direction - alpha * torch.sparse.mm(graph, direction)
        step = _ratio(norm, (direction * image).sum(dim=0))
        solution = solution + step * direction
        residual = residual - step * image
        norm, before = residual.square().sum(dim=0), norm
        if bool((norm <= enough).all()):
            break
        direction = residual + _ratio(norm, before) * direction
    return solution


def _ratio(numerator: Tensor, denominator: Tensor) -> Tensor:
    """Return the ratio, or 0 where the denominator is 0: the column of a class without seeds is already solved."""
    return torch.where(denominator > 0, numerator / denominator, torch.zeros_like(numerator))


def certain_labels(scores: Tensor) -> tuple[Tensor, Tensor]:
    """Return class ids argmax z (N,) and weights 1 - H(z^) / log K (N,) of diffused scores (N, K) (Eq. 7 and 11).

    z^ is the row divided by its sum. A row that no label has reached has weight 0.
    """
    positive = scores.clamp(min=0)
    total = positive.sum(dim=-1)
    entropy = torch.special.entr(positive / total.clamp(min=torch.finfo(scores.dtype).tiny)[:, None]).sum(dim=-1)
    weights = (1 - entropy / math.log(scores.shape[-1])).clamp(0, 1)
    return scores.argmax(dim=-1), torch.where(total > 0, weights, torch.zeros_like(weights))


def class_weights(class_ids: Tensor, classes: int) -> Tensor:
    """Return zeta (K,), the inverse number of images per class (N,), scaled so that equal classes have weight 1.

    A class without images has weight 0.
    """
    counts = torch.bincount(class_ids, minlength=classes).to(torch.float32)
    return torch.where(counts > 0, len(class_ids) / (classes * counts.clamp(min=1)), torch.zeros_like(counts))
