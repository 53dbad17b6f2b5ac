"""The table of classes: pure functions from one table to the next.

A class keeps its number when it is renamed, so that its labels stay. The labels of a removed class are ignored, and
come back if the removal is undone. A number is never given to a second class.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from semco.errors import UserError, brief

LONGEST_NAME = 80
MOST_CLASSES = 1000
HIGHEST_NUMBER = 10**9  # of a class
Pair = tuple[int, int]
K = TypeVar("K")
V = TypeVar("V")


@dataclass(frozen=True)
class NamedClass:
    """One class: its number, its name, and the vocabulary term that a person set, if any."""

    number: int
    name: str
    alias: str = ""


@dataclass(frozen=True)
class ClassTable:
    """All classes, in the order of their keys, and which of them a person put together or apart."""

    classes: tuple[NamedClass, ...] = ()
    together: tuple[Pair, ...] = ()
    apart: tuple[Pair, ...] = ()
    next_number: int = 1

    @classmethod
    def from_plain(cls, values: Mapping[str, Any] | None, next_number: int = 1) -> ClassTable:
        """Return the table of plain values; new classes get numbers from ``next_number`` on, or from its own."""
        if values is None:
            return cls(next_number=next_number)
        pairs = {field: tuple((a, b) for a, b in values.get(field, ())) for field in ("together", "apart")}
        classes = tuple(NamedClass(*row) for row in values["classes"])
        return cls(classes, pairs["together"], pairs["apart"], max(next_number, values["next_number"]))

    def to_plain(self) -> dict[str, Any]:
        classes = [[each.number, each.name, each.alias] for each in self.classes]
        return {
            "classes": classes,
            "together": [list(pair) for pair in self.together],
            "apart": [list(pair) for pair in self.apart],
            "next_number": self.next_number,
        }

    @property
    def names(self) -> dict[int, str]:
        return {each.number: each.name for each in self.classes}

    @property
    def aliases(self) -> dict[str, str]:
        return {each.name: each.alias for each in self.classes if each.alias}

    @property
    def pairs(self) -> dict[Pair, str]:
        return dict.fromkeys(self.together, "together") | dict.fromkeys(self.apart, "apart")

    def add(self, *names: str) -> ClassTable:
        """Return the table with further classes; names that are there already are an error."""
        table = self
        if len(self.classes) + len(names) > MOST_CLASSES:
            raise UserError(f"a project has at most {MOST_CLASSES:,} classes; remove some first.")
        for name in names:
            if table.next_number > HIGHEST_NUMBER:
                raise UserError(f"classes have numbers up to {HIGHEST_NUMBER:,}, which is used; begin a new project.")
            new = NamedClass(table.next_number, table._checked(name))
            table = replace(table, classes=(*table.classes, new), next_number=table.next_number + 1)
        return table

    def rename(self, number: int, name: str) -> ClassTable:
        """Return the table with another name, and so without the alias of the old one."""
        found = self.find(number)
        return self if found.name == name.strip() else self._with(NamedClass(number, self._checked(name, number)))

    def set_alias(self, number: int, alias: str) -> ClassTable:
        return self._with(replace(self.find(number), alias=checked_text(alias.strip())))

    def remove(self, number: int) -> ClassTable:
        self.find(number)
        kept = tuple(each for each in self.classes if each.number != number)
        together, apart = (tuple(p for p in pairs if number not in p) for pairs in (self.together, self.apart))
        return replace(self, classes=kept, together=together, apart=apart)

    def pair(self, first: int, second: int, kind: str) -> ClassTable:
        """Return the table with two classes put ``together`` or ``apart``, or left to the rule (``free``)."""
        if kind not in ("together", "apart", "free") or first == second:
            raise UserError(f"two different classes are put together, apart or free, not {brief(kind)}.")
        self.find(first), self.find(second)
        pair = (min(first, second), max(first, second))
        pairs = {each: kind for each, kind in self.pairs.items() if each != pair}
        return self._with_pairs(pairs if kind == "free" else {**pairs, pair: kind})

    def move(self, number: int, place: int) -> ClassTable:
        """Return the table with a class at another place, which decides on its key."""
        found = self.find(number)
        others = [each for each in self.classes if each.number != number]
        others.insert(max(0, min(place, len(others))), found)
        return replace(self, classes=tuple(others))

    def find(self, number: int) -> NamedClass:
        for each in self.classes:
            if each.number == number:
                return each
        raise UserError("this class was removed, perhaps in another tab.")

    def labels_config(self, names: Sequence[str]) -> dict[str, Any]:
        """Return the fields of the configuration's section ``labels`` for a run with these classes."""
        known = self.names

        def named(pairs: tuple[Pair, ...]) -> list[list[str]]:
            return [[known[a], known[b]] for a, b in pairs if known[a] in names and known[b] in names]

        aliases = {name: alias for name, alias in self.aliases.items() if name in names}
        return {"aliases": aliases, "together": named(self.together), "apart": named(self.apart)}

    def _with(self, changed: NamedClass) -> ClassTable:
        self.find(changed.number)
        return replace(self, classes=tuple(changed if each.number == changed.number else each for each in self.classes))

    def _with_pairs(self, pairs: Mapping[Pair, str]) -> ClassTable:
        together, apart = (tuple(pair for pair, k in pairs.items() if k == kind) for kind in ("together", "apart"))
        return replace(self, together=together, apart=apart)

    def _checked(self, name: str, own: int | None = None) -> str:
        name = checked_text(" ".join(name.split()))
        if not name:
            raise UserError("a class needs a name; write one.")
        if any(each.name.casefold() == name.casefold() and each.number != own for each in self.classes):
            raise UserError(f"there is a class {name!r} already; choose another name.")
        return name


def checked_text(text: str) -> str:
    """Return a name or a word that can be written to every file; raise a `UserError` for any other."""
    if len(text) > LONGEST_NAME:
        raise UserError(f"a class name has at most {LONGEST_NAME} letters, not {len(text)}; shorten it.")
    if any(unicodedata.category(letter) in ("Cc", "Cs") for letter in text):
        raise UserError(f"the class name {text!r} holds something that is no character; write it again, in UTF-8.")
    return text


def check_plain(values: Any) -> None:
    """Raise a `ValueError` unless these are the plain values of a table; a file may hold anything."""
    if not isinstance(values, dict) or not isinstance(values.get("classes"), list):
        raise ValueError("it holds no table of classes")
    if not all(_is_class(row) for row in values["classes"]):
        raise ValueError("one of its classes is not a number, a name and a word")
    numbers, names = [row[0] for row in values["classes"]], [row[1] for row in values["classes"]]
    if len(set(numbers)) < len(numbers) or len({name.casefold() for name in names} - {""}) < len(names):
        raise ValueError("two of its classes have the same number or name, or one has no name")
    if not is_class_number(values.get("next_number"), HIGHEST_NUMBER + 1):
        raise ValueError("its next number is wrong")
    pairs = [values.get("together", []), values.get("apart", [])]
    if not all(isinstance(each, list) and all(_is_pair(pair, numbers) for pair in each) for each in pairs):
        raise ValueError("one of its pairs is wrong")


def _is_class(row: Any) -> bool:
    return isinstance(row, list) and [type(each) for each in row] == [int, str, str] and is_class_number(row[0])


def _is_pair(pair: Any, numbers: Sequence[int]) -> bool:
    return isinstance(pair, list) and len(pair) == 2 and all(each in numbers for each in pair) and pair[0] != pair[1]


def is_class_number(value: Any, highest: int = HIGHEST_NUMBER) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= highest


def carry_over(before: ClassTable, after: ClassTable, now: ClassTable) -> ClassTable:
    """Return ``now`` with the change from ``before`` to ``after`` applied; later changes are kept.

    With ``before`` and ``after`` exchanged, this undoes the change.
    """
    names = _carried(before.names, after.names, now.names)
    if len({name.casefold() for name in names.values()}) < len(names):
        raise UserError("another class has got the name of this one since; give that one another name first.")
    aliases = _carried(*({each.number: each.alias for each in table.classes} for table in (before, after, now)))
    order = _carried_order(before, after, now, names)
    classes = tuple(NamedClass(number, names[number], aliases.get(number, "")) for number in order)
    pairs = _carried(before.pairs, after.pairs, now.pairs)
    known = {pair: kind for pair, kind in pairs.items() if pair[0] in names and pair[1] in names}
    return replace(now, classes=classes)._with_pairs(known)


def _carried(before: Mapping[K, V], after: Mapping[K, V], now: Mapping[K, V]) -> dict[K, V]:
    """Return ``now`` with the differences from ``before`` to ``after``, where ``now`` still equals ``before``."""
    found = dict(now)
    for key in (*before, *after):
        if before.get(key) == after.get(key) or now.get(key) != before.get(key):
            continue
        found.pop(key, None)
        if key in after:
            found[key] = after[key]
    return found


def _carried_order(before: ClassTable, after: ClassTable, now: ClassTable, names: Mapping[int, str]) -> list[int]:
    """Return the numbers of ``names`` in order: a move is carried over, a class that comes back has its old place."""
    order = [number for number in now.names if number in names]
    shared = [number for number in after.names if number in before.names and number in order]
    if [number for number in before.names if number in shared] == [number for number in order if number in shared]:
        moved = iter(shared)
        order = [next(moved) if number in shared else number for number in order]
    for place, number in enumerate(after.names):
        if number in names and number not in order:
            order.insert(place, number)
    return order
