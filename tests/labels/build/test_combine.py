from __future__ import annotations

import numpy as np
import pytest

from semco.labels.build.combine import combine
from semco.labels.build.readers.conceptnet import Edges
from semco.labels.build.readers.vectors import VectorSet
from semco.labels.build.vocabulary import make_vocabulary
from semco.labels.store import unit_rows


def rotation(size: int, seed: int) -> np.ndarray:
    return np.linalg.qr(np.random.default_rng(seed).normal(size=(size, size)))[0].astype(np.float32)


def test_a_planted_rotation_is_found_again() -> None:
    """Set B is set A turned: terms that only one of them has must land where they would with both."""
    rng = np.random.default_rng(0)
    a = unit_rows(rng.normal(size=(300, 12)).astype(np.float32))
    b = a @ rotation(12, 1)
    everyone = np.ones(300, dtype=bool)
    known_a, known_b = np.arange(300) < 250, np.arange(300) >= 50  # 50 only in A, 50 only in B
    # cosines do not depend on the basis, and a full-rank projection keeps them all
    for sets in ([(a, everyone), (b, everyone)], [(a, known_a), (b, known_b)]):
        found, known = combine(sets, 12)
        assert known.all()
        np.testing.assert_allclose(found @ found.T, a @ a.T, atol=1e-4)


def test_one_set_terms_meet_their_twins_of_the_other_set() -> None:
    """The same new word, once only in A and once only in B, must get the same vector."""
    rng = np.random.default_rng(3)
    common = rng.normal(size=(200, 8)).astype(np.float32)
    new = rng.normal(size=(5, 8)).astype(np.float32)
    turn = rotation(8, 4)
    a = np.concatenate([common, new, np.zeros_like(new)])
    b = np.concatenate([common @ turn, np.zeros_like(new), new @ turn])
    places = np.arange(210)
    found, _ = combine([(a, places < 205), (b, (places < 200) | (places >= 205))], 8, power=0.5)
    np.testing.assert_allclose(found[200:205], found[205:], atol=1e-4)


@pytest.mark.parametrize("power", [1.0, 0.5, 0.0])
def test_it_is_the_truncated_svd_of_the_columns_side_by_side(power: float) -> None:
    rng = np.random.default_rng(2)
    a, b = rng.normal(size=(2, 40, 6)).astype(np.float32)
    everyone = np.ones(40, dtype=bool)
    found, _ = combine([(a, everyone), (b, everyone)], 5, power)
    u, s, _ = np.linalg.svd(np.concatenate([a, b], axis=1), full_matrices=False)
    expected = unit_rows((u[:, :5] * s[:5] ** power).astype(np.float32))
    np.testing.assert_allclose(found @ found.T, expected @ expected.T, atol=1e-4)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, atol=1e-5)


def test_fewer_columns_than_asked_for_is_fine() -> None:
    rows = np.random.default_rng(0).normal(size=(9, 3)).astype(np.float32)
    found, _ = combine([(rows, np.ones(9, dtype=bool))], 128)
    assert found.shape == (9, 3)


def test_terms_of_no_set_are_zero_and_unknown() -> None:
    rows = np.random.default_rng(0).normal(size=(6, 4)).astype(np.float32)
    known = np.array([True] * 5 + [False])
    found, anyone = combine([(rows, known), (rows, known)], 4)
    assert anyone.tolist() == known.tolist()
    np.testing.assert_array_equal(found[5], 0)


def test_without_a_common_term_the_larger_set_stands_alone() -> None:
    rows = np.random.default_rng(0).normal(size=(6, 4)).astype(np.float32)
    places = np.arange(6)
    found, known = combine([(rows, places < 4), (rows, places >= 4)], 4)
    assert known.tolist() == (places < 4).tolist()
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), places < 4, atol=1e-5)


def test_terms_of_more_sources_come_first_then_the_more_frequent() -> None:
    none = np.zeros((0, 2), np.float32)
    first, second = VectorSet(["rare_in_all", "both", "one"], none), VectorSet(["x", "both", "rare_in_all"], none)
    edges = Edges(
        ["rare_in_all", "leaf", "hub"],
        np.array([0, 1], np.int32),
        np.array([2, 2], np.int32),
        np.zeros(2, np.int8),
        np.ones(2, np.float32),
        ("IsA",),
    )
    found = make_vocabulary([first, second], edges, None)
    assert found.terms == ["rare_in_all", "both", "hub", "x", "leaf", "one"]
    assert make_vocabulary([first, second], edges, 2).terms == ["rare_in_all", "both"]
    assert found.positions(["both", "unknown"]).tolist() == [1, -1]
