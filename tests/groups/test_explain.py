from __future__ import annotations

import numpy as np
import pytest

from semco.groups.explain import lowest_cosine, review
from semco.groups.grouping import group_classes
from semco.labels.embeddings import LabelEmbeddings

NAMES = ("a", "b", "c", "d")
ROUTES = ("exact", "edit distance 1", "own vector", "exact")


def at_degrees(*angles: float, eps: float = 0.1) -> LabelEmbeddings:
    """Return four classes whose vectors have these angles; 1 - cos 20 degrees = 0.06, 25: 0.094, 30: 0.134."""
    radians = np.deg2rad(angles)
    rows = np.stack([np.cos(radians), np.sin(radians)], axis=1).astype(np.float32)
    return LabelEmbeddings(NAMES, rows, NAMES, ROUTES, "a test", eps)


def test_a_group_by_hand() -> None:
    """a - b - c is a chain of steps of 20 and 10 degrees: the larger one splits it; a - c is its weakest pair."""
    found = at_degrees(0, 20, 30, 90)
    [group] = review(found, group_classes(found)).groups
    assert group.members == ("a", "b", "c")
    assert [one.names for one in group.pairs] == [("a", "c"), ("a", "b"), ("b", "c")]
    assert [one.cosine for one in group.pairs] == pytest.approx(np.cos(np.deg2rad([30, 20, 10])))
    assert group.splits_below == pytest.approx(1 - np.cos(np.deg2rad(20)), abs=1e-6)
    assert not group.is_doubtful
    assert lowest_cosine(found, group.members) == pytest.approx(np.cos(np.deg2rad(30)), abs=1e-4)


def test_the_nearest_pair_decides_what_joins_next() -> None:
    found = at_degrees(0, 20, 70, 180)
    first = review(found, group_classes(found)).joins[0]
    assert first.parts == (("a", "b"), ("c",))
    assert first.pair.names == ("b", "c")
    assert first.joins_at == pytest.approx(1 - np.cos(np.deg2rad(50)), abs=1e-6)


def test_doubtful_names_and_groups_come_first() -> None:
    found = at_degrees(0, 10, 90, 115)  # a tenth less than eps 0.1 splits c - d
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
    found = at_degrees(0, 10, 90, 180)
    assert review(found, group_classes(found, together=[("a", "c")])).corrected
    assert review(found, group_classes(found, apart=[("a", "b")])).corrected
