"""Vectors as seen from their mean."""

from __future__ import annotations

import numpy as np

from semco.labels.embeddings import centred


def test_rows_are_seen_from_the_centre() -> None:
    """From (1, 0): (0.6, 0.8) lies at (-0.4, 0.8), of length sqrt(0.8); (0, -1) at (-1, -1)."""
    matrix = np.array([[0.6, 0.8], [0.0, -1.0]], dtype=np.float32)
    seen = centred(matrix, np.array([1.0, 0.0]))
    np.testing.assert_allclose(seen, [[-0.4 / 0.8**0.5, 0.8 / 0.8**0.5], [-(0.5**0.5), -(0.5**0.5)]], atol=1e-6)
    assert seen.dtype == np.float32


def test_what_lies_in_the_centre_stays() -> None:
    """Classes that share one vector have nothing to tell them apart, and no direction either."""
    matrix = np.array([[0.6, 0.8], [0.6, 0.8]], dtype=np.float32)
    np.testing.assert_array_equal(centred(matrix, matrix.mean(axis=0)), matrix)


def test_names_of_one_field_are_told_apart() -> None:
    """Three vectors with cosines of 0.9 and more look away from one another once their mean is gone."""
    close = np.array([[1.0, 0.2, 0.0], [1.0, -0.1, 0.2], [1.0, -0.1, -0.2]])
    close = (close / np.linalg.norm(close, axis=1, keepdims=True)).astype(np.float32)
    before, seen = close @ close.T, centred(close, close.mean(axis=0))
    after = seen @ seen.T
    assert before.min() > 0.9
    assert after[~np.eye(3, dtype=bool)].max() < 0
    np.testing.assert_allclose(np.diag(after), 1.0, atol=1e-6)
