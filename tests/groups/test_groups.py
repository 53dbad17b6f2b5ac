from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.cluster import DBSCAN

from semco.errors import UserError
from semco.groups.explain import lowest_cosine, review
from semco.groups.grouping import find_group_ids, group_classes
from semco.labels.embeddings import LabelEmbeddings


def embeddings(matrix: np.ndarray, eps: float = 0.2) -> LabelEmbeddings:
    rows = (matrix / np.linalg.norm(matrix, axis=1, keepdims=True)).astype(np.float32)
    names = tuple(f"c{i:02d}" for i in range(len(rows)))
    return LabelEmbeddings(names, rows, names, ("exact",) * len(rows), "a test", eps)


def at_degrees(*angles: float) -> np.ndarray:
    radians = np.deg2rad(angles)
    return np.stack([np.cos(radians), np.sin(radians)], axis=1)


def test_neighbours_by_hand() -> None:
    """1 - cos 30° = 0.134, 1 - cos 40° = 0.234: at 0.2 neighbours 30° apart are grouped and those 40° apart are not."""
    groups = group_classes(embeddings(at_degrees(0, 200, 30, 60, 100)))
    assert groups.eps == 0.2
    assert groups.group_ids.tolist() == [0, 1, 0, 0, 2]
    assert groups.members == (("c00", "c02", "c03"), ("c01",), ("c04",))
    assert (groups.count, groups.largest) == (3, 3)


def test_eps_is_the_given_one_or_the_default_of_the_source() -> None:
    found = embeddings(at_degrees(0, 30, 180), eps=0.1)
    assert group_classes(found).count == 3
    assert group_classes(found, None).eps == 0.1
    assert group_classes(found, 0.2).count == 2


def test_eps_zero_makes_every_class_its_own_group() -> None:
    assert group_classes(embeddings(at_degrees(10, 10, 50)), 0).group_ids.tolist() == [0, 1, 2]


@pytest.mark.parametrize("eps", [-0.1, 2.5, float("nan")])
def test_eps_must_be_a_cosine_distance(eps: float) -> None:
    with pytest.raises(UserError, match="between 0"):
        group_classes(embeddings(at_degrees(0, 90)), eps)


def test_a_group_of_most_classes_gets_a_note() -> None:
    groups = group_classes(embeddings(np.eye(6)), 1.5)
    assert groups.count == 1
    assert "puts all 6 classes into one group" in groups.notes[0]
    most = group_classes(embeddings(at_degrees(0, 1, 2, 3, 90, 180)), 0.2)
    assert "puts 4 of the 6 classes into one group" in most.notes[0]
    assert group_classes(embeddings(at_degrees(0, 1, 90, 180)), 0.2).notes == ()
    assert group_classes(embeddings(at_degrees(0, 1, 90)), 0.2).notes == ()  # two look-alikes of three classes


def test_a_person_corrects_groups() -> None:
    """c00 and c01 are one group, c02 and c03 another."""
    found = embeddings(at_degrees(0, 10, 90, 100))
    joined = group_classes(found, together=[("c00", "c03")])
    assert joined.members == (("c00", "c01", "c02", "c03"),)
    split = group_classes(found, together=[("c00", "c03")], apart=[("c02", "c03")])
    assert split.members == (("c00", "c01", "c02"), ("c03",))
    with pytest.raises(UserError, match="'x' is no class name"):
        group_classes(found, apart=[("c00", "x")])


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 25), st.floats(0.01, 1.0))
def test_groups_are_those_of_dbscan_in_any_order(seed: int, size: int, eps: float) -> None:
    rng = np.random.default_rng(seed)
    found = embeddings(rng.normal(size=(size, 5)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("semco.groups.grouping.ROWS", 7)  # in up to four parts
        ids = find_group_ids(found.names, found.matrix, eps)
    expected = DBSCAN(eps=eps, min_samples=1, metric="cosine").fit(found.matrix.astype(np.float64)).labels_
    assert ids.tolist() == expected.tolist()  # both number the groups in the order of their first classes

    order = rng.permutation(size)
    shuffled = find_group_ids([found.names[i] for i in order], found.matrix[order], eps)
    together = ids[:, None] == ids[None, :]
    assert np.array_equal(together[np.ix_(order, order)], shuffled[:, None] == shuffled[None, :])


NAMES = ("a", "b", "c", "d")
ROUTES = ("exact", "edit distance 1", "own vector", "exact")


def classes_at(*angles: float, eps: float = 0.1) -> LabelEmbeddings:
    """Return four classes whose vectors have these angles; 1 - cos 20 degrees = 0.06, 25: 0.094, 30: 0.134."""
    return LabelEmbeddings(NAMES, at_degrees(*angles).astype(np.float32), NAMES, ROUTES, "a test", eps)


def test_a_group_by_hand() -> None:
    """a - b - c is a chain of steps of 20 and 10 degrees: the larger one splits it; a - c is its weakest pair."""
    found = classes_at(0, 20, 30, 90)
    [group] = review(found, group_classes(found)).groups
    assert group.members == ("a", "b", "c")
    assert [one.names for one in group.pairs] == [("a", "c"), ("a", "b"), ("b", "c")]
    assert [one.cosine for one in group.pairs] == pytest.approx(np.cos(np.deg2rad([30, 20, 10])))
    assert group.splits_below == pytest.approx(1 - np.cos(np.deg2rad(20)), abs=1e-6)
    assert not group.is_doubtful
    assert lowest_cosine(found, group.members) == pytest.approx(np.cos(np.deg2rad(30)), abs=1e-4)


def test_the_nearest_pair_decides_what_joins_next() -> None:
    found = classes_at(0, 20, 70, 180)
    first = review(found, group_classes(found)).joins[0]
    assert first.parts == (("a", "b"), ("c",))
    assert first.pair.names == ("b", "c")
    assert first.joins_at == pytest.approx(1 - np.cos(np.deg2rad(50)), abs=1e-6)


def test_doubtful_names_and_groups_come_first() -> None:
    found = classes_at(0, 10, 90, 115)  # a tenth less than eps 0.1 splits c - d
    result = review(found, group_classes(found))
    assert [(one.name, one.is_doubtful) for one in result.names] == [
        ("b", True),
        ("c", True),
        ("a", False),
        ("d", False),
    ]
    assert [(one.members, one.is_doubtful) for one in result.groups] == [(("c", "d"), True), (("a", "b"), False)]
    assert [one.nearest for one in result.names] == ["a", "", "b", "c"]  # c has a vector of its own
    assert not result.corrected


def test_corrections_are_seen() -> None:
    found = classes_at(0, 10, 90, 180)
    assert review(found, group_classes(found, together=[("a", "c")])).corrected
    assert review(found, group_classes(found, apart=[("a", "b")])).corrected
