from __future__ import annotations

import numpy as np
import pytest

from semco.groups.grouping import EVIDENCE_EPS, group_classes
from semco.groups.tune import (
    merge_heights,
    round_steps,
    suggested_eps,
    suggested_near_default,
    suggestion_reason,
    tune,
)
from semco.labels.distances import distances, eps_for_share
from semco.labels.embeddings import LabelEmbeddings
from semco.labels.evidence import Evidence


def embeddings(matrix: np.ndarray, names: tuple[str, ...] | None = None) -> LabelEmbeddings:
    rows = (matrix / np.linalg.norm(matrix, axis=1, keepdims=True)).astype(np.float32)
    names = names or tuple(f"class {i}" for i in range(len(rows)))
    return LabelEmbeddings(names, rows, names, ("exact",) * len(rows), "a test", 0.2)


def at_degrees(*angles: float) -> np.ndarray:
    radians = np.deg2rad(angles)
    return np.stack([np.cos(radians), np.sin(radians)], axis=1)


def height(degrees: float) -> float:
    return float(1 - np.cos(np.deg2rad(degrees)))


RANDOM = np.random.default_rng(0).normal(size=(100, 20))


def test_distances_by_hand() -> None:
    found = distances(embeddings(at_degrees(0, 60, 180)).matrix)
    np.testing.assert_allclose(found, [[0, 0.5, 2], [0.5, 0, 1.5], [2, 1.5, 0]], atol=1e-6)


def test_heights_are_where_groups_merge() -> None:
    found = embeddings(at_degrees(0, 10, 40, 100))
    heights = merge_heights(found.matrix)
    np.testing.assert_allclose(heights, [height(10), height(30), height(60)], atol=1e-6)
    for i, merge in enumerate(heights):
        assert group_classes(found, merge - 1e-4).count == 4 - i
        assert group_classes(found, merge + 1e-4).count == 3 - i


def test_settings_list_the_new_groups() -> None:
    found = tune(embeddings(at_degrees(0, 10, 40, 100)), (0.0, 0.05, 0.1, 0.2))
    assert [(s.eps, s.groups, s.together, s.largest) for s in found.settings] == [
        (0.0, 4, 0, 1),
        (0.05, 3, 1, 2),
        (0.1, 3, 1, 2),
        (0.2, 2, 1, 3),
    ]
    assert [s.joined for s in found.settings] == [
        (),
        (("class 0", "class 1"),),
        (),
        (("class 0", "class 1", "class 2"),),
    ]
    assert found.default == 0.2


def test_the_default_steps_end_with_one_group() -> None:
    settings = tune(embeddings(RANDOM)).settings
    assert settings[0].groups == 100
    assert settings[-1].groups == 1
    assert 5 < len(settings) <= 26


@pytest.mark.parametrize("top", [0.0, 0.01, 0.3, 1.0, 2.0])
def test_round_steps_reach_the_top(top: float) -> None:
    steps = round_steps(np.asarray([top]))
    assert steps[0] == 0
    assert steps[-1] >= top
    assert len(steps) <= 26


def test_the_suggested_eps_lies_in_a_planted_gap() -> None:
    """Twenty pairs, 0.01 to 0.05 apart, all else nearly at right angles: the gap is between."""
    rng = np.random.default_rng(1)
    bases = np.linalg.qr(rng.normal(size=(64, 64)))[0]
    partners = bases[:20] + 0.2 * rng.uniform(0.7, 1.5, size=(20, 1)) * bases[20:40]
    found = embeddings(np.concatenate([bases[:20], partners, bases[40:]]))
    suggested = suggested_eps(found.matrix)
    assert group_classes(found, suggested).count == len(found.names) - 20
    assert 0.05 < suggested < 0.95


def test_the_suggested_eps_gives_no_large_group() -> None:
    for seed in range(20):
        rng = np.random.default_rng(seed)
        size = int(rng.integers(2, 60))
        found = embeddings(rng.normal(size=(size, 6)))
        assert group_classes(found, suggested_eps(found.matrix)).largest <= max(3, 0.1 * size)


def test_small_cases() -> None:
    assert suggested_eps(np.ones((1, 3), dtype=np.float32)) == 0.0
    assert suggested_eps(embeddings(at_degrees(0, 60)).matrix) == pytest.approx(0.25, abs=1e-6)
    assert tune(embeddings(np.ones((1, 3)))).settings[0].groups == 1


def test_eps_for_a_share_of_the_pairs() -> None:
    found = embeddings(RANDOM)
    eps = eps_for_share(found.matrix)
    pairs = distances(found.matrix)[np.triu_indices(100, 1)]
    assert (pairs <= eps).sum() == 9  # the paper's nine of 4,950
    few = embeddings(RANDOM[:10])
    assert group_classes(few, eps_for_share(few.matrix)).count == 10
    assert eps_for_share(found.matrix[:1]) == 0.0


@pytest.mark.parametrize(("classes", "expected"), [(550, 274), (551, 275), (1100, 550)])
def test_many_classes_have_one_neighbour_each_on_average(classes: int, expected: int) -> None:
    """9 of 4,950 pairs up to 550 classes (150,975 pairs: 274.5), then half as many as classes."""
    matrix = embeddings(np.random.default_rng(0).normal(size=(classes, 8))).matrix
    pairs = distances(matrix)[np.triu_indices(classes, 1)]
    assert (pairs <= eps_for_share(matrix)).sum() == expected


def test_the_reason_of_a_suggestion() -> None:
    heights = np.array([0.1, 0.12, 0.4])
    assert suggestion_reason(heights, 0.26).startswith("the largest gap for its place, between the merges at 0.120 and")
    assert suggestion_reason(heights, 0.5).startswith("the largest gap for its place, after 0.400")
    assert "groups nothing" in suggestion_reason(heights, 0.05)


def test_the_rule_evidence_is_compared_near_its_default() -> None:
    """a and b have the evidence 1.4 (eps 0.6), c and d 1.0 (eps 1.0)."""
    nothing = np.zeros((4, 4))
    total = nothing.copy()
    total[0, 1] = total[1, 0] = 1.4
    total[2, 3] = total[3, 2] = 1.0
    names = tuple("abcd")
    evidence = Evidence(total, nothing, nothing, nothing, nothing, nothing, np.full_like(total, np.nan))
    found = LabelEmbeddings(names, np.eye(4, dtype=np.float32), names, names, "a test", 0.2, (), evidence)
    tuned = tune(found, (0.5, 0.7, 1.0))
    assert (tuned.rule, tuned.default) == ("evidence", EVIDENCE_EPS)
    assert [one.joined for one in tuned.settings] == [(), (("a", "b"),), (("c", "d"),)]
    assert tuned.suggested == EVIDENCE_EPS  # no merge is near
    assert tune(found, (0.5,), "dbscan").rule == "dbscan"
    default = tune(found).settings
    assert default[0].eps < EVIDENCE_EPS < default[-1].eps


def test_the_suggestion_near_the_default_by_hand() -> None:
    """Merges at 0.95 and 0.97 of the default, and far from it: the widest gap is from 0.97 to the upper end, 1.1."""
    heights = EVIDENCE_EPS * np.array([0.3, 0.95, 0.97, 1.6])
    suggested, reason = suggested_near_default(heights)
    assert suggested == pytest.approx(EVIDENCE_EPS * (0.97 + 1.1) / 2)
    assert f"between {0.97 * EVIDENCE_EPS:.3f} and {1.1 * EVIDENCE_EPS:.3f}" in reason
