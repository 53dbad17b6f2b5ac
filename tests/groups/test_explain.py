from __future__ import annotations

import numpy as np
import pytest

from semco.groups.explain import review
from semco.groups.grouping import EVIDENCE_EPS, group_classes
from semco.labels.embeddings import LabelEmbeddings
from semco.labels.evidence import Evidence

NAMES = ("a", "b", "c", "d")
ROUTES = ("exact", "edit distance 1", "own vector", "exact")
NEEDED = 2 - EVIDENCE_EPS


def embeddings(total: np.ndarray) -> LabelEmbeddings:
    nothing = np.zeros_like(total)
    captions = np.full_like(total, np.nan)
    captions[1, 2] = captions[2, 1] = 0.25
    # what captions add is taken away again
    local = np.where(np.isnan(captions), total, (total - 1.6 * 0.25 + 0.35) / 0.7)
    evidence = Evidence(local, nothing, nothing, nothing, nothing, nothing, captions, {(0, 1): "both letters"})
    return LabelEmbeddings(NAMES, np.eye(4, dtype=np.float32), NAMES, ROUTES, "a test", 0.2, (), evidence)


def pairs(**values: float) -> np.ndarray:
    """Return the evidence of the named pairs, 0 elsewhere."""
    total = np.zeros((4, 4))
    for pair, value in values.items():
        i, j = map(NAMES.index, pair)
        total[i, j] = total[j, i] = value
    return total


def test_a_group_by_hand() -> None:
    """a, b, c are a group; its weakest pair is a - c, which splits it below eps 2 - 1.5."""
    found = embeddings(pairs(ab=1.9, bc=1.7, ac=1.5, cd=0.4))
    [group] = review(found, group_classes(found)).groups
    assert group.members == ("a", "b", "c")
    assert [one.names for one in group.pairs] == [("a", "c"), ("b", "c"), ("a", "b")]
    assert [one.evidence for one in group.pairs] == pytest.approx([1.5, 1.7, 1.9])
    assert (group.pairs[0].graph, group.pairs[2].graph) == ("", "both letters")
    assert [one.captions for one in group.pairs] == [None, 0.25, None]
    assert group.splits_below == pytest.approx(0.5)
    assert not group.is_doubtful


def test_what_joins_next_is_decided_by_the_weakest_pair() -> None:
    """d is close to a, but its evidence with b is only 0.6: the group and d join at eps 1.4, if at all."""
    found = embeddings(pairs(ab=1.9, ad=1.8, bd=0.6))
    first = review(found, group_classes(found)).joins[0]
    assert first.parts == (("a", "b"), ("d",))
    assert first.pair.names == ("b", "d")
    assert first.joins_at == pytest.approx(1.4)


def test_without_evidence_the_nearest_pair_decides() -> None:
    rows = np.array([[1, 0], [0.96, 0.28], [0.6, 0.8], [-1, 0]], dtype=np.float32)
    found = LabelEmbeddings(NAMES, rows, NAMES, ROUTES, "a test", 0.1)
    result = review(found, group_classes(found))
    assert [one.members for one in result.groups] == [("a", "b")]
    assert result.groups[0].splits_below == pytest.approx(0.04, abs=1e-6)
    assert result.joins[0].pair.names == ("b", "c")
    assert result.joins[0].joins_at == pytest.approx(1 - (0.96 * 0.6 + 0.28 * 0.8), abs=1e-6)
    assert result.groups[0].pairs[0].evidence is None


def test_doubtful_names_and_groups_come_first() -> None:
    found = embeddings(pairs(ab=1.9, cd=NEEDED + 0.01))
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
    found = embeddings(pairs(ab=1.9))
    assert review(found, group_classes(found, together=[("a", "c")])).corrected
    assert review(found, group_classes(found, apart=[("a", "b")])).corrected
