from __future__ import annotations

import numpy as np

from semco.labels.eps import FALLBACK, families, sibling_eps


def test_families_that_are_too_small_or_too_large_are_left_out() -> None:
    small = [(i, 100) for i in range(4)]
    right = [(i, 101) for i in (9, 3, 5, 7, 4, 4)]  # a repeated edge counts once
    large = [(i, 102) for i in range(51)]
    found = list(families(np.array(small + right + large)))
    assert [children.tolist() for children in found] == [[3, 4, 5, 7, 9]]


def test_eps_is_a_low_quantile_of_the_nearest_siblings() -> None:
    angles = np.array([0.0, 0.1, 0.3, 0.7, 1.5, 2.0])
    rows = np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)
    is_a = np.array([(i, 5) for i in range(5)])
    nearest = 1 - np.cos([0.1, 0.1, 0.2, 0.4, 0.8])
    expected = np.quantile(nearest, 0.1)
    assert sibling_eps(rows, np.ones(6, bool), is_a) == round(float(expected), 3)


def test_without_families_eps_is_that_of_the_paper() -> None:
    nobody = np.zeros((0, 2), np.int64)
    assert sibling_eps(np.eye(3, dtype=np.float32), np.ones(3, bool), nobody) == FALLBACK
