from __future__ import annotations

import numpy as np

from semco.groups.plot.layout import map_coordinates, separate_boxes

ROWS = np.random.default_rng(0).normal(size=(30, 20))
UNIT = ROWS / np.linalg.norm(ROWS, axis=1, keepdims=True)


def test_the_map_is_the_same_every_time() -> None:
    cosine_distances = np.clip(1 - UNIT @ UNIT.T, 0, 2)
    np.testing.assert_array_equal(map_coordinates(cosine_distances), map_coordinates(cosine_distances))


def test_boxes_are_separated() -> None:
    points, sizes = np.zeros((12, 2)) + 2, np.tile([1.0, 0.2], (12, 1))
    moved = separate_boxes(points, sizes, np.asarray([4.0, 4.0]))
    gap = np.abs(moved[:, None] - moved[None]) + np.eye(12)[..., None] * 9
    assert ((gap >= [1 - 1e-3, 0.2 - 1e-3]).any(axis=2)).all()
    assert (moved >= sizes / 2 - 1e-9).all()
    assert (moved <= 4 - sizes / 2 + 1e-9).all()
