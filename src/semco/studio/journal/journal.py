"""The journal of a project: an append-only file with one line per label or change of the classes.

A line is on the disk before a change is acknowledged, so that a kill loses nothing that was acknowledged. A line that
cannot be read is skipped and reported. From time to time all entries are also written as a snapshot, which replaces
lines that the journal has lost.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from semco.errors import UserError
from semco.files import cannot_write, exists, open_in_place, open_regular, read_json_object, write_text
from semco.studio.journal.class_table import ClassTable, carry_over
from semco.studio.journal.entry import CLASSES, Entry, Kind, Value, dump, opened, sealed
from semco.studio.journal.state import State

SNAPSHOT_EVERY = 500  # entries


@dataclass(frozen=True)
class Conflict(Exception):  # noqa: N818 (the caller decides what to do)
    """Photos that another tab has changed in the meantime."""

    photos: tuple[str, ...]


class Journal:
    """The open journal of a project. All methods may be called from several threads.

    A caller whose change depends on what it has read must hold ``lock`` from the reading to the change.
    """

    def __init__(self, folder: Path) -> None:
        self.file, self.snapshot_file = folder / "journal.jsonl", folder / "snapshot.json"
        self.problems: list[str] = []
        self.lock = threading.RLock()
        self._snapshot_seq = 0  # the last entry of the snapshot
        self.state = self._read()
        self._stream = open_in_place(self.file, "ab")
        self._end_last_line()
        self._size = os.fstat(self._stream.fileno()).st_size
        self._is_torn = False  # whether the file may end with an incomplete line
        self._complete_snapshot()  # after a kill

    def close(self) -> None:
        with self.lock:
            self._complete_snapshot()
            self._stream.close()

    @property
    def seq(self) -> int:
        """The number of the last entry."""
        return self.state.seq

    def label(self, labels: Mapping[str, int | None], tab: str = "", seen: int | None = None, answer: int = 0) -> Entry:
        """Give photos their classes, or None to take a label away.

        ``seen`` is the last entry that the tab knows: if another tab has changed one of the photos since, nothing is
        written and a `Conflict` names them. ``answer`` is the class that the model predicted for a photo that
        is labelled blind.
        """
        with self.lock:
            if seen is not None:
                changed = tuple(name for name in labels if self.state.changed_at(name) > seen)
                if changed:
                    raise Conflict(changed)
            return self._append("label", tab, changes=dict(labels), answer=answer)

    def set_classes(self, table: Mapping[str, Any], tab: str = "", labels: Mapping[str, int] | None = None) -> Entry:
        """Replace the table of classes, and label photos in the same entry, which is undone as one."""
        with self.lock:
            return self._append("classes", tab, changes={CLASSES: dict(table), **(labels or {})})

    def undo(self, tab: str = "", seq: int | None = None) -> Entry:
        """Undo an entry, by default the last one of the tab."""
        with self.lock:
            entry = self.state.last_undoable(tab) if seq is None else self.state.find(seq)
            if entry is None or not self.state.is_undoable(entry):
                raise UserError("there is nothing to undo.")
            table = self._carried(entry, self.state.table_after(entry.seq), self.state.table_after(entry.seq - 1))
            return self._append("undo", tab, table, entry.seq)

    def redo(self, seq: int, tab: str = "") -> Entry:
        """Redo an entry that was undone."""
        with self.lock:
            entry = self.state.find(seq)
            if entry is None or seq not in self.state.undone:
                raise UserError(f"entry {seq} is not undone.")
            table = self._carried(entry, self.state.table_after(seq - 1), self.state.table_after(seq))
            return self._append("redo", tab, table, seq)

    def _carried(self, entry: Entry, before: Value, after: Value) -> Mapping[str, Value]:
        """Return the classes with the change from one table to another, if that is what the entry is about."""
        if CLASSES not in entry.changes:
            return {}
        now = ClassTable.from_plain(self.classes())
        table = carry_over(ClassTable.from_plain(before), ClassTable.from_plain(after), now)
        if table == now:
            raise UserError("what this entry changed has been changed again since; undo that first.")
        return {CLASSES: table.to_plain()}

    def history(self, count: int) -> list[tuple[Entry, bool]]:
        """Return the last labels and changes of the classes, latest first, and whether each is undone."""
        with self.lock:
            shown = [entry for entry in self.state.entries if entry.kind in ("label", "classes")]
            return [(entry, entry.seq in self.state.undone) for entry in reversed(shown[-count:])]

    def classes(self) -> dict[str, Any] | None:
        with self.lock:
            table: dict[str, Any] | None = self.state.value(CLASSES)
            return table

    def classes_after(self, seq: int) -> dict[str, Any] | None:
        """Return the table of classes as it was after an entry."""
        with self.lock:
            table: dict[str, Any] | None = self.state.table_after(seq)
            return table

    def blind_answers(self) -> dict[str, int]:
        """Return the photos whose labels were given blind, with the class that the model predicted."""
        with self.lock:
            entries = [each for each in self.state.entries if each.answer and each.seq not in self.state.undone]
            return {name: each.answer for each in entries for name in each.changes}

    def named(self) -> dict[str, int]:
        """Return the number of the class that has a name, without regard to case, or was the last to have it."""
        with self.lock:
            tables = [entry.changes[CLASSES] for entry in self.state.entries if CLASSES in entry.changes]
        rows = [row for table in tables if table for row in table["classes"]]
        return {name.casefold(): number for number, name, _ in rows}

    def next_class(self) -> int:
        """Return the number of the next new class, which no class has had, not even one that was undone."""
        with self.lock:
            return self.state.highest_class + 1

    def labels(self) -> dict[str, int]:
        """Return the class number of every labelled photo."""
        with self.lock:
            return {name: value for name, value in self.state.values().items() if name != CLASSES}

    def changes(self, since: int) -> dict[str, int | None]:
        """Return the photos whose labels changed after an entry, with their class numbers."""
        with self.lock:
            return {name: value for name, value in self.state.changed_since(since).items() if name != CLASSES}

    def _append(
        self, kind: Kind, tab: str, changes: Mapping[str, Value] | None = None, of: int = 0, answer: int = 0
    ) -> Entry:
        entry = Entry(self.state.seq + 1, kind, round(time.time(), 3), tab, changes or {}, of, answer)
        self._write(entry.to_line())
        self.state.apply(entry)
        if entry.seq - self._snapshot_seq >= SNAPSHOT_EVERY:
            self._write_snapshot()
        return entry

    def _write(self, line: bytes) -> None:
        """Append a line and wait until it is on the disk; if that fails, the file is as it was before."""
        handle = self._stream.fileno()
        try:
            if self._is_torn:
                os.ftruncate(handle, self._size)
            self._is_torn, written = True, 0
            while written < len(line):
                written += os.write(handle, line[written:])
            os.fsync(handle)
        except OSError as error:
            with suppress(OSError):  # then before the next line
                os.ftruncate(handle, self._size)
                self._is_torn = False
            raise cannot_write(self.file, error) from error
        self._is_torn = False
        self._size += len(line)

    def _complete_snapshot(self) -> None:
        if self.state.seq > self._snapshot_seq:
            self._write_snapshot()

    def _write_snapshot(self) -> None:
        entries = [entry.to_plain() for entry in self.state.entries]
        try:
            write_text(self.snapshot_file, dump(sealed({"seq": self.state.seq, "entries": entries})).decode() + "\n")
        except UserError as error:  # the journal has everything; the snapshot is a second copy
            self.problems.append(f"there is no new snapshot of the labels: {error}")
        self._snapshot_seq = self.state.seq

    def _end_last_line(self) -> None:
        """Remove what a kill left of a line that was never acknowledged, or end a complete last line."""
        content = self.file.read_bytes()
        rest = content.rpartition(b"\n")[2]
        if not rest:
            return
        if _is_entry(rest, content.count(b"\n") + 1):
            os.write(self._stream.fileno(), b"\n")
        else:
            os.truncate(self.file, len(content) - len(rest))

    def _read(self) -> State:
        state = State()
        for entry in sorted(self._with_copies(list(self._read_entries())), key=lambda entry: entry.seq):
            state.apply(entry)
        return state

    def _with_copies(self, entries: list[Entry]) -> list[Entry]:
        """Return the entries, and those of the snapshot that are missing among them."""
        known = {entry.seq for entry in entries}
        found = self._read_snapshot()
        self._snapshot_seq = max((entry.seq for entry in found), default=0)
        copies = [entry for entry in found if entry.seq not in known]
        if not copies:
            return entries
        lost = len(set(range(1, copies[-1].seq + 1)) - known)
        self.problems.append(
            f"{lost} entries of {self.file} are missing; their labels come from {self.snapshot_file.name}."
        )
        return copies + entries

    def _read_entries(self) -> Iterator[Entry]:
        if not exists(self.file):
            return
        with open_regular(self.file) as stream:
            lines = stream.read().split(b"\n")
        for number, line in enumerate(lines, 1):
            try:
                if line:
                    yield Entry.from_line(line, number)
            except (ValueError, RecursionError):
                if number < len(lines):  # a kill may have cut the last one short, which was not acknowledged
                    self.problems.append(f"line {number} of {self.file} cannot be read and is skipped.")

    def _read_snapshot(self) -> list[Entry]:
        if not exists(self.snapshot_file):
            return []
        try:
            found = read_json_object(self.snapshot_file)
        except UserError as error:
            self.problems.append(str(error))
            return []
        try:
            entries = opened(found)["entries"]
            return [Entry.from_plain(each, place) for place, each in enumerate(entries, 1)]
        except (ValueError, TypeError, KeyError, RecursionError):
            self.problems.append(f"{self.snapshot_file} is damaged and is not used.")
            return []


def _is_entry(line: bytes, number: int) -> bool:
    try:
        Entry.from_line(line, number)
    except (ValueError, RecursionError):
        return False
    return True
