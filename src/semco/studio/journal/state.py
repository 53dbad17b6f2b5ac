"""The state that results from the entries of a journal.

The label of a photo is that of the last entry that names it and is not undone, whichever tab wrote it. The table of
classes is kept whole; an entry that undoes a change of the classes brings the table that follows.
"""

from __future__ import annotations

from collections.abc import Iterable

from semco.studio.journal.entry import CLASSES, Entry, Value


class State:
    """The entries of each photo, and which entries are undone."""

    def __init__(self) -> None:
        self._values: dict[str, list[tuple[int, Value]]] = {}
        self._changed: dict[str, int] = {}  # photo -> the last entry that changed its label, also by undoing
        self._tables: list[tuple[int, Value]] = []  # entry -> the table of classes after it, if it changed that
        self._by_seq: dict[int, Entry] = {}
        self.entries: list[Entry] = []
        self.undone: set[int] = set()
        self.seq = 0
        self.highest_class = 0  # the highest number that a class or a label ever had, also in what is undone

    def apply(self, entry: Entry) -> None:
        self.entries.append(entry)
        self._by_seq[entry.seq] = entry
        self.seq = max(self.seq, entry.seq)
        self.highest_class = max([self.highest_class, *_class_numbers(entry)])
        names: Iterable[str] = entry.changes
        if entry.kind in ("undo", "redo"):
            (self.undone.add if entry.kind == "undo" else self.undone.discard)(entry.of)
            concerned = self.find(entry.of)
            names = entry.changes if concerned is None else concerned.changes
        for name, value in entry.changes.items():
            self._values.setdefault(name, []).append((entry.seq, value))
        for name in names:
            self._changed[name] = entry.seq
        if CLASSES in names:
            self._tables.append((entry.seq, self.value(CLASSES)))

    def find(self, seq: int) -> Entry | None:
        return self._by_seq.get(seq)

    def value(self, name: str) -> Value:
        """Return the class number of a photo, or the table of classes; None if there is none."""
        standing = (value for seq, value in reversed(self._values.get(name, ())) if seq not in self.undone)
        return next(standing, None)

    def table_after(self, seq: int) -> Value:
        """Return the table of classes as it was after an entry."""
        return next((table for at, table in reversed(self._tables) if at <= seq), None)

    def values(self) -> dict[str, Value]:
        """Return the class number of every labelled photo, and the classes under `CLASSES`."""
        found = {name: self.value(name) for name in self._values}
        return {name: value for name, value in found.items() if value is not None}

    def changed_since(self, seq: int) -> dict[str, Value]:
        """Return what changed after an entry: photo -> class number or None, and the classes under `CLASSES`."""
        return {name: self.value(name) for name, last in self._changed.items() if last > seq}

    def changed_at(self, name: str) -> int:
        return self._changed.get(name, 0)

    def last_undoable(self, tab: str) -> Entry | None:
        """Return the last entry of a tab that can be undone."""
        return next((each for each in reversed(self.entries) if self.is_undoable(each) and each.tab == tab), None)

    def is_undoable(self, entry: Entry) -> bool:
        return entry.kind in ("label", "classes") and entry.seq not in self.undone


def _class_numbers(entry: Entry) -> Iterable[int]:
    for name, value in entry.changes.items():
        if name == CLASSES:
            yield value["next_number"] - 1
            yield from (number for number, _, _ in value["classes"])
        elif value is not None:
            yield value
