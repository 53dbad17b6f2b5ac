"""Positions of class names on a map: t-SNE, then moved apart until all names can be read.

Shapes: K classes.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def map_coordinates(distances: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the t-SNE coordinates (K, 2) of distances (K, K), initialised by classical scaling to be deterministic."""
    start = _classical_scaling(distances)
    if len(distances) < 5:
        return start
    from sklearn.manifold import TSNE

    scale = 1e-4 / max(float(start[:, 0].std()), 1e-12)
    perplexity = min(15.0, (len(distances) - 1) / 3)
    model = TSNE(metric="precomputed", init=(start * scale).astype(np.float32), perplexity=perplexity, random_state=0)
    found: NDArray[np.float64] = model.fit_transform(distances).astype(np.float64)
    return found


def _classical_scaling(distances: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the plane (K, 2) that preserves squared distances best (Torgerson)."""
    size = len(distances)
    centre = np.eye(size) - 1 / size
    values, vectors = np.linalg.eigh(-0.5 * centre @ (2 * distances) @ centre)  # |u - v|^2 = 2 (1 - cos)
    plane = vectors[:, ::-1][:, :2] * np.sqrt(np.maximum(values[::-1][:2], 0))
    signs = np.where(plane[np.abs(plane).argmax(axis=0), [0, 1]] < 0, -1.0, 1.0)
    found: NDArray[np.float64] = plane * signs
    return found


def fit_to_box(points: NDArray[np.float64], width: float, height: float) -> NDArray[np.float64]:
    """Return the points (K, 2) scaled to fill a box."""
    low, high = points.min(axis=0), points.max(axis=0)
    fitted: NDArray[np.float64] = (points - low) / np.maximum(high - low, 1e-9) * [width, height]
    return fitted


def separate_boxes(
    points: NDArray[np.float64], sizes: NDArray[np.float64], limits: NDArray[np.float64], rounds: int = 400
) -> NDArray[np.float64]:
    """Return the centres (K, 2) of boxes of ``sizes`` (K, 2), moved inside ``limits`` (2,) until none overlap."""
    points = points.copy()
    reach = (sizes[:, None] + sizes[None, :]) / 2  # (K, K, 2)
    for _ in range(rounds):
        gap = points[:, None] - points[None, :]
        overlap = reach - np.abs(gap)
        overlapping = (overlap > 1e-6).all(axis=2) & ~np.eye(len(points), dtype=bool)
        if not overlapping.any():
            break
        axis_of_push = overlap.argmin(axis=2)  # the direction of the smaller move
        offset = np.take_along_axis(gap, axis_of_push[..., None], axis=2)[..., 0]
        ties = np.sign(np.arange(len(points))[:, None] - np.arange(len(points))[None, :])
        push = np.where(offset == 0, ties, np.sign(offset)) * overlap.min(axis=2) * overlapping * 0.26
        for axis in (0, 1):
            points[:, axis] += (push * (axis_of_push == axis)).sum(axis=1)
        points = np.clip(points, sizes / 2, np.maximum(limits - sizes / 2, sizes / 2))
    return points
