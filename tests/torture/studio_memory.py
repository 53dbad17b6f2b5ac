"""What the tabs of a Studio were told is saved, and what the Studio must therefore show.

A tab labels its own photos, with classes of every tab, and changes its own classes. So its own changes alone decide
what holds for them, whatever the other tabs do. The journal is read for the order of the changes and for a change that
was under way at a kill; each line must be what a tab has asked for.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torture.attack import Failure

TABLE = ""  # the name of the table of classes among the changes of a line


@dataclass
class Change:
    """A change that a tab asked for: label, add, rename, remove, undo or redo, and the values of the request."""

    kind: str
    values: Mapping[str, Any]
    line: Mapping[str, Any] = field(default_factory=dict)  # of the journal


@dataclass
class Memory:
    """The changes of each tab that were acknowledged, and the one of which nobody knows, because of a kill."""

    names: list[str]  # of the photos, by number
    changes: dict[str, list[Change]] = field(default_factory=dict)
    unknown: dict[str, Change] = field(default_factory=dict)

    def settle(self, journal: Path) -> None:
        """Compare what was acknowledged with the lines of the journal."""
        lines = journal_lines(journal)
        for tab, changes in self.changes.items():
            own = [line for line in lines if line.get("tab") == tab]
            unknown = self.unknown.pop(tab, None)
            if unknown is not None and len(own) == len(changes) + 1:
                changes.append(unknown)
            if len(own) != len(changes):
                raise Failure("an acknowledged change is lost", f"{tab}: {len(own)} lines, {len(changes)} changes")
            for change, line in zip(changes, own, strict=True):
                self._compare(change, line)

    def _compare(self, change: Change, line: Mapping[str, Any]) -> None:
        change.line = line
        kind = change.kind if change.kind in ("label", "undo", "redo") else "classes"
        labels = {name: label for name, label in line.get("changes", {}).items() if name != TABLE}
        wanted = {}
        if kind == "label":
            wanted = {self.names[number]: change.values["label"] for number in change.values["photos"]}
        if line["kind"] != kind or labels != wanted:
            raise Failure("a line of the journal is not what was acknowledged", f"{change} {line}")

    def in_order(self) -> list[Change]:
        """Return the changes of all tabs that count: not undone, or done again."""
        every = sorted((each for some in self.changes.values() for each in some), key=lambda each: each.line["seq"])
        undone = set()
        for each in every:
            if each.kind in ("undo", "redo"):
                (undone.add if each.kind == "undo" else undone.discard)(each.line["of"])
        return [each for each in every if each.line["seq"] not in undone and each.kind not in ("undo", "redo")]

    def expected(self, first: Mapping[int, str]) -> tuple[dict[int, str], dict[str, int]]:
        """Return the names of the classes by number, and the class number of each labelled photo by name."""
        classes, labels, used = dict(first), {}, set(first)
        for tab in self.changes.values():
            for change in tab:
                if change.kind == "add":
                    used = self._use(change, used)
        for change in self.in_order():
            number = change.values.get("class")
            if change.kind == "add":
                classes |= self.numbers(change)
            elif change.kind == "rename" and number in classes:
                classes[number] = change.values["name"]
            elif change.kind == "remove":
                classes.pop(number, None)
            elif change.kind == "label":
                labels |= {self.names[photo]: change.values["label"] for photo in change.values["photos"]}
        return classes, {name: label for name, label in labels.items() if label in classes}

    def numbers(self, change: Change) -> dict[int, str]:
        """Return the numbers that added classes got."""
        rows = change.line["changes"][TABLE]["classes"]
        return {number: name for number, name, _ in rows if name in change.values["names"]}

    def _use(self, change: Change, used: set[int]) -> set[int]:
        numbers = set(self.numbers(change))
        if numbers & used or len(numbers) != len(change.values["names"]):
            raise Failure("a number of a class is used twice", f"{change}")
        return used | numbers

    def check(self, state: Mapping[str, Any], csv: str, first: Mapping[int, str]) -> None:
        """Compare what the Studio shows with what it must show."""
        classes, labels = self.expected(first)
        shown = {self.names[int(number)]: label for number, label in state["labels"].items()}
        if dict(state["classes"]) != classes:
            raise Failure("classes are lost or changed", f"{state['classes']}, expected {classes}")
        if shown != labels:
            raise Failure("labels are lost or changed", f"{shown}, expected {labels}")
        if sorted(csv.splitlines()[1:]) != sorted(f"{name},{classes[label]}" for name, label in labels.items()):
            raise Failure("labels.csv has other labels", csv)


def journal_lines(journal: Path) -> list[dict[str, Any]]:
    """Return the whole lines of a journal."""
    return list(_whole(journal.read_bytes().split(b"\n")))


def _whole(lines: Iterable[bytes]) -> Iterable[dict[str, Any]]:
    for line in lines:
        try:
            yield json.loads(line)
        except ValueError:  # cut short by a kill
            continue
