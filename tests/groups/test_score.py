from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from semco.errors import UserError
from semco.groups.score import (
    NAMES,
    PAPER_GROUPS,
    SUPERCLASSES,
    average_precision,
    pair_f1,
    pairs_of,
    rank_correlation,
    score,
)
from semco.labels.embeddings import LabelEmbeddings
from semco.labels.sources import store_source


class Grouped:
    """A source with one axis per group, and one for every other class."""

    def __init__(self, groups: Sequence[Sequence[str]]) -> None:
        self.groups = groups

    def vectors(self, names: Sequence[str]) -> LabelEmbeddings:
        leader = {name: group[0] for group in self.groups for name in group}
        matrix = np.eye(len(names), dtype=np.float32)
        rows = np.stack([matrix[list(names).index(leader.get(name, name))] for name in names])
        return LabelEmbeddings(tuple(names), rows, tuple(names), ("exact",) * len(names), "test", 0.2)


def test_the_names_are_cifar_100s() -> None:
    assert len(NAMES) == len(set(NAMES)) == 100
    assert len(SUPERCLASSES) == 20
    assert {name for group in PAPER_GROUPS for name in group} <= set(NAMES)


def test_the_papers_own_groups_score_one() -> None:
    found = score(Grouped(PAPER_GROUPS))
    assert (found.f1, found.pairs, found.inside, found.looks) == (1.0, 9, 1.0, None)
    assert set(map(frozenset, found.groups)) == set(map(frozenset, PAPER_GROUPS))


def test_a_score_by_hand() -> None:
    """Two of the paper's nine pairs, one more inside a superclass, one across: 4 found."""
    found = score(Grouped([("boy", "girl"), ("crab", "lobster"), ("lion", "tiger"), ("sea", "whale")]))
    assert found.pairs == 4
    assert found.f1 == pytest.approx(2 * 2 / (4 + 9))
    assert found.inside == pytest.approx(3 / 4)


def test_no_groups_at_all() -> None:
    found = score(Grouped([]))
    assert (found.f1, found.pairs, found.inside, found.groups) == (0.0, 0, 1.0, ())


def test_f1_of_pairs() -> None:
    assert pair_f1(pairs_of(["abc"]), pairs_of(["ab", "cd"])) == pytest.approx(2 * 1 / (3 + 2))
    assert pair_f1(set(), set()) == 1.0


def test_rank_correlation_over_pairs() -> None:
    cosines = np.array([[1.0, 0.9, 0.2], [0.9, 1.0, 0.5], [0.2, 0.5, 1.0]], dtype=np.float32)
    assert rank_correlation(cosines, cosines.astype(np.float64) ** 3) == pytest.approx(1.0)
    assert rank_correlation(cosines, -cosines.astype(np.float64)) == pytest.approx(-1.0)
    looks = np.array([[0, 2, 3], [2, 0, 1], [3, 1, 0]], dtype=np.float64)  # ranks 3 1 2 against 2 3 1
    assert rank_correlation(cosines, looks) == pytest.approx(1 - 6 * (1 + 1 + 4) / (3 * 8))


def test_average_precision_by_hand() -> None:
    """Pairs in the order of their cosines: 01 wanted, 12 not, 02 wanted: (1/1 + 2/3) / 2."""
    cosines = np.array([[1.0, 0.9, 0.2], [0.9, 1.0, 0.5], [0.2, 0.5, 1.0]], dtype=np.float32)
    looks = np.array([[9, 2, 3], [2, 9, 1], [3, 1, 9]], dtype=np.float64)
    assert average_precision(cosines, looks, 2) == pytest.approx((1 + 2 / 3) / 2)


def test_the_bundled_store_groups_what_looks_alike() -> None:
    """The numbers of the bundled store in docs/labels.md."""
    found = score(store_source(None))
    assert found.f1 >= 0.56
    assert found.pairs >= 16
    assert found.inside >= 15 / 16


def test_looks_are_read_and_checked(tmp_path: Path) -> None:
    source = Grouped(PAPER_GROUPS)
    matrix = source.vectors(NAMES).matrix
    np.save(tmp_path / "looks.npy", matrix @ matrix.T)
    assert score(source, looks=tmp_path / "looks.npy").looks == pytest.approx(1.0)
    np.save(tmp_path / "small.npy", np.eye(3))
    with pytest.raises(UserError, match=r"is float64 \(3, 3\)"):
        score(source, looks=tmp_path / "small.npy")
    (tmp_path / "text.npy").write_text("hello")
    with pytest.raises(UserError, match="cannot be read"):
        score(source, looks=tmp_path / "text.npy")
