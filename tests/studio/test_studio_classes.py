"""The classes of a project and what their names are taken for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from semco.errors import UserError
from semco.studio.classes import describe
from semco.studio.journal import ClassTable
from semco.studio.journal.class_table import carry_over

TABLE = ClassTable().add("apple", "pear", "dog", "qwzzyx")


def row(table: ClassTable, name: str) -> dict[str, object]:
    return next(each for each in describe(table)["classes"] if each["name"] == name)


def test_a_renamed_class_keeps_its_number() -> None:
    table = TABLE.rename(2, " green   pear ")
    assert table.names == {1: "apple", 2: "green pear", 3: "dog", 4: "qwzzyx"}
    assert ClassTable.from_plain(table.to_plain()) == table
    assert ClassTable.from_plain(None) == ClassTable()


def test_numbers_are_not_used_again() -> None:
    table = TABLE.pair(1, 4, "together").remove(4).add("cat")
    assert (table.names, table.together) == ({1: "apple", 2: "pear", 3: "dog", 5: "cat"}, ())


def test_classes_are_moved() -> None:
    assert [each.number for each in TABLE.move(3, 0).classes] == [3, 1, 2, 4]
    assert [each.number for each in TABLE.move(1, 99).classes] == [2, 3, 4, 1]


def test_bad_names_and_pairs_are_refused() -> None:
    for change, sentence in (
        (lambda: TABLE.add("Apple"), "there is a class 'Apple' already"),
        (lambda: TABLE.add("  "), "needs a name"),
        (lambda: TABLE.add("x" * 81), "at most 80"),
        (lambda: TABLE.rename(9, "cat"), "was removed"),
        (lambda: TABLE.pair(1, 1, "apart"), "two different classes"),
        (lambda: TABLE.pair(1, 2, "near"), "together, apart or free"),
    ):
        with pytest.raises(UserError, match=sentence):
            change()


@pytest.mark.parametrize("name", ["\ud800", "caf\udce9", "a\x00b", "\x1b[31mred"])
def test_names_that_cannot_be_written_are_refused(name: str) -> None:
    for change in (TABLE.add, lambda text: TABLE.rename(1, text), lambda text: TABLE.set_alias(1, text)):
        with pytest.raises(UserError, match="no character") as error:
            change(name)
        str(error.value).encode()


def test_a_change_is_taken_back_and_later_ones_stay() -> None:
    later = TABLE.rename(3, "cat")
    for change in (
        lambda table: table.add("owl", "crow"),
        lambda table: table.remove(2),
        lambda table: table.rename(2, "plum").pair(1, 3, "apart"),
        lambda table: table.pair(1, 3, "together"),
        lambda table: table.move(1, 3),
    ):
        changed = change(TABLE)
        now = carry_over(TABLE, changed, later)
        assert now == replace(change(later), next_number=later.next_number)
        assert carry_over(changed, TABLE, now) == later
    moved = TABLE.move(3, 0)
    assert carry_over(TABLE, moved, moved.move(1, 3)) == moved.move(1, 3)  # it was moved again since


def test_what_was_changed_again_stays_and_names_stay_different() -> None:
    renamed = TABLE.rename(1, "plum")
    again = renamed.rename(1, "cherry")
    assert carry_over(renamed, TABLE, again) == again
    assert carry_over(TABLE, TABLE.rename(1, "plum"), TABLE.remove(1)) == TABLE.remove(1)
    removed = TABLE.pair(1, 2, "apart").remove(1)
    with pytest.raises(UserError, match="another class has got the name"):
        carry_over(removed, TABLE, removed.add("Apple"))
    assert carry_over(removed, TABLE.pair(1, 2, "apart"), removed).apart == ((1, 2),)


def test_names_are_looked_up() -> None:
    assert row(TABLE, "apple")["term"] == "apple"
    assert row(TABLE, "qwzzyx")["confidence"] == 0
    assert row(TABLE.set_alias(4, "banana"), "qwzzyx")["term"] == "banana"
    with pytest.raises(UserError, match="qqqqqqq"):
        describe(TABLE.set_alias(4, "qqqqqqq"))


def test_groups_follow_a_person() -> None:
    apart = describe(TABLE.pair(1, 2, "apart"))["groups"]
    assert [1] in apart
    assert [2] in apart
    together = TABLE.pair(1, 3, "together")
    assert any({1, 3} <= set(members) for members in describe(together)["groups"])
    assert together.pair(1, 3, "apart").together == ()
    assert together.pair(3, 1, "free") == TABLE
    assert together.labels_config(["apple", "dog"])["together"] == [["apple", "dog"]]
    assert together.labels_config(["apple", "pear"])["together"] == []


def test_the_map_is_a_square() -> None:
    rows = describe(TABLE)["classes"]
    for axis in ("x", "y"):
        values = [each[axis] for each in rows]
        assert (min(values), max(values)) == (0, 1)
    assert describe(ClassTable())["classes"] == []
    assert len(describe(ClassTable().add("apple"))["classes"]) == 1
