"""Centred label vectors."""

from __future__ import annotations

import numpy as np

from semco.labels.embeddings import centred


def test_the_centre_is_subtracted_and_rows_are_normalised() -> None:
    """(0.6, 0.8) - (1, 0) is (-0.4, 0.8), of length sqrt(0.8); (0, -1) - (1, 0) is (-1, -1)."""
    matrix = np.array([[0.6, 0.8], [0.0, -1.0]], dtype=np.float32)
    result = centred(matrix, np.array([1.0, 0.0]))
    np.testing.assert_allclose(result, [[-0.4 / 0.8**0.5, 0.8 / 0.8**0.5], [-(0.5**0.5), -(0.5**0.5)]], atol=1e-6)
    assert result.dtype == np.float32


def test_rows_equal_to_the_centre_stay() -> None:
    """The difference has length zero and therefore no direction."""
    matrix = np.array([[0.6, 0.8], [0.6, 0.8]], dtype=np.float32)
    np.testing.assert_array_equal(centred(matrix, matrix.mean(axis=0)), matrix)


def test_centring_separates_similar_vectors() -> None:
    """Three vectors with cosines above 0.9 have negative cosines once their mean is subtracted."""
    close = np.array([[1.0, 0.2, 0.0], [1.0, -0.1, 0.2], [1.0, -0.1, -0.2]])
    close = (close / np.linalg.norm(close, axis=1, keepdims=True)).astype(np.float32)
    before, result = close @ close.T, centred(close, close.mean(axis=0))
    after = result @ result.T
    assert before.min() > 0.9
    assert after[~np.eye(3, dtype=bool)].max() < 0
    np.testing.assert_allclose(np.diag(after), 1.0, atol=1e-6)
