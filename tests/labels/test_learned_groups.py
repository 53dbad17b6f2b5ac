"""Groups from names and confusion, by hand-made confusions."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from semco.labels.learned import (
    FEWEST_OBSERVATIONS,
    MERGE,
    SPLIT,
    closeness,
    describe_change,
    learned_group_ids,
    mutual_confusion,
)

NAMES = ("dog", "cat", "ship", "truck")
NAMED = np.array([0, 0, 1, 2])


def confusion_of(*pairs: tuple[int, int, float], own: float = 0.8, images: float = 100.0) -> NDArray[np.float64]:
    """A confusion in which each pair gives each other so much; what is left of a row goes to nobody in particular."""
    shares = np.zeros((4, 4))
    for one, other, share in pairs:
        shares[one, other] = shares[other, one] = share
    for row in range(4):
        rest = [column for column in range(4) if column != row and shares[row, column] == 0]
        shares[row, rest] = (1 - own - shares[row].sum()) / len(rest)
        shares[row, row] = own
    return images * shares


def groups_of(confusion: NDArray[np.float64], named: NDArray[np.int64] = NAMED, **pairs: tuple[tuple[str, ...], ...]):  # type: ignore[no-untyped-def]
    return learned_group_ids(named, confusion, NAMES, **pairs).tolist()


def test_mutual_confusion_by_hand() -> None:
    # Rows sum to 10. Class 0 gives 0.4 to 1 and 0 to the other, class 1 gives 0.3 to 0 and 0.2 to the other.
    found = mutual_confusion(np.array([[6.0, 4.0, 0.0], [3.0, 5.0, 2.0], [0.5, 0.5, 9.0]]))
    assert found[0, 1] == pytest.approx((0.4 + 0.1) / 1.1)
    assert found[1, 2] == pytest.approx(0.0)
    assert found[0, 2] == pytest.approx(0.0)
    assert np.array_equal(found, found.T)


def test_a_model_that_knows_nothing_confuses_no_pair() -> None:
    assert mutual_confusion(np.full((4, 4), 25.0)).max() == pytest.approx(0)


def test_closeness_has_units_of_its_own_for_named_pairs() -> None:
    confusion = confusion_of((0, 1, 0.1), (2, 3, 0.1))
    mutual = mutual_confusion(confusion)
    found = closeness(NAMED, confusion)
    assert found[0, 1] == pytest.approx(mutual[0, 1] / SPLIT)
    assert found[2, 3] == pytest.approx(mutual[2, 3] / MERGE)


def test_what_is_confused_is_merged_and_what_is_not_is_split() -> None:
    assert groups_of(confusion_of((2, 3, 0.2))) == [0, 1, 2, 2]  # dog and cat are never confused
    assert groups_of(confusion_of((0, 1, 0.1), (2, 3, 0.2))) == [0, 0, 1, 1]


def test_a_little_confusion_keeps_a_named_group_but_makes_no_new_one() -> None:
    little = confusion_of((0, 1, 0.1), (2, 3, 0.1))
    assert SPLIT < mutual_confusion(little)[0, 1] < MERGE
    assert groups_of(little) == NAMED.tolist()


def test_nothing_is_chained() -> None:
    """Dog and cat, and cat and ship, are confused, but not dog and ship: the more confused pair is merged."""
    confusion = confusion_of((0, 1, 0.2), (1, 2, 0.25), own=0.5)
    assert groups_of(confusion, np.arange(4)) == [0, 1, 1, 2]


def test_a_class_that_was_rarely_seen_stays_where_its_name_puts_it() -> None:
    confusion = confusion_of((2, 3, 0.2))
    few = confusion.copy()
    few[[0, 3]] *= 0.9 * FEWEST_OBSERVATIONS / few[[0, 3]].sum(axis=1, keepdims=True)
    assert groups_of(few) == NAMED.tolist()
    assert groups_of(np.zeros((4, 4))) == NAMED.tolist()


def test_a_person_wins() -> None:
    confusion = confusion_of((2, 3, 0.2))  # merges ship and truck, splits dog and cat
    assert groups_of(confusion, apart=(("ship", "truck"),)) == [0, 1, 2, 3]
    assert groups_of(confusion, together=(("dog", "cat"),)) == [0, 0, 1, 1]
    assert groups_of(confusion, together=(("dog", "ship"),)) == [0, 1, 0, 0]


def test_two_classes_have_no_confusion_that_stands_out() -> None:
    found = learned_group_ids(np.array([0, 1]), np.array([[50.0, 50.0], [50.0, 50.0]]), ("dog", "cat"))
    assert found.tolist() == [0, 1]


def test_the_order_of_the_classes_changes_nothing() -> None:
    confusion, order = confusion_of((0, 1, 0.2), (1, 2, 0.2), own=0.5), [2, 0, 3, 1]
    names = [NAMES[i] for i in order]
    found = learned_group_ids(np.arange(4), confusion[np.ix_(order, order)], names)
    pairs = {frozenset((names[i], names[j])) for i in range(4) for j in range(i) if found[i] == found[j]}
    expected = learned_group_ids(np.arange(4), confusion, NAMES)
    assert pairs == {frozenset((NAMES[i], NAMES[j])) for i in range(4) for j in range(i) if expected[i] == expected[j]}


def test_describe_change() -> None:
    old, new = np.array([0, 0, 1, 2]), np.array([0, 1, 2, 2])
    assert describe_change(NAMES, old, new) == "merged ship, truck; split dog, cat"
    assert describe_change(NAMES, old, old) == ""
