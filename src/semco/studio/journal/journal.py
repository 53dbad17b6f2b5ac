"""The journal of a project: every label and every change of the classes, one line each, only ever appended.

A line is a JSON object with a sequence number and a checksum. It is on the disk before a change is acknowledged, so
that a kill loses nothing that was acknowledged. A line that cannot be read is skipped and reported. From time to time
the state is also written as a snapshot, which replaces lines that were damaged later.

The label of a photo is that of the last entry that names it and is not undone, whichever tab wrote it.
"""

from __future__ import annotations

import json
import os
import threading
import time
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from semco.errors import UserError
from semco.files import cannot_write, exists, open_in_place, open_regular, read_json_object, write_json

Kind = Literal["label", "classes", "undo", "redo"]
SNAPSHOT_EVERY = 500  # entries
CLASSES = ""  # the name under which the classes are kept among the photos; no photo has an empty name

Value = Any  # of a photo: the id of its class or None; of the classes: their table as plain values


@dataclass(frozen=True)
class Entry:
    """One line of the journal."""

    seq: int
    kind: Kind
    time: float = 0.0
    tab: str = ""
    changes: Mapping[str, Value] = field(default_factory=dict)  # photo -> class id or None; CLASSES -> table
    of: int = 0  # undo and redo: the entry that they concern

    def to_line(self) -> bytes:
        values = {name: value for name, value in self.__dict__.items() if value or name == "seq"}
        return _dump({**values, "crc": _checksum(values)}) + b"\n"

    @classmethod
    def from_line(cls, line: bytes) -> Entry:
        """Return the entry of a line; a damaged one raises a `ValueError`."""
        values = json.loads(line)
        if not isinstance(values, dict) or values.pop("crc", None) != _checksum(values):
            raise ValueError("its checksum is wrong")
        try:
            return cls(**values)
        except TypeError as error:
            raise ValueError(str(error)) from None


def _dump(values: Mapping[str, Any]) -> bytes:
    return json.dumps(values, sort_keys=True, separators=(",", ":")).encode()


def _checksum(values: Mapping[str, Any]) -> str:
    return f"{zlib.crc32(_dump(values)):08x}"


@dataclass(frozen=True)
class Conflict(Exception):  # noqa: N818 (the caller decides what to do)
    """Photos that another tab has changed since the tab that wants to change them last looked."""

    photos: tuple[str, ...]


class State:
    """What the entries amount to: per photo the entries that name it, and which entries are undone."""

    def __init__(self) -> None:
        self._values: dict[str, list[tuple[int, Value]]] = {}
        self._changed: dict[str, int] = {}  # photo -> the last entry that changed its label, also by undoing
        self.entries: list[Entry] = []
        self.undone: set[int] = set()
        self.seq = 0

    def apply(self, entry: Entry) -> None:
        self.entries.append(entry)
        self.seq = max(self.seq, entry.seq)
        names: Iterable[str] = entry.changes
        if entry.kind in ("undo", "redo"):
            (self.undone.add if entry.kind == "undo" else self.undone.discard)(entry.of)
            concerned = self.find(entry.of)
            names = () if concerned is None else concerned.changes
        for name, value in entry.changes.items():
            self._values.setdefault(name, []).append((entry.seq, value))
        for name in names:
            self._changed[name] = entry.seq

    def find(self, seq: int) -> Entry | None:
        return next((entry for entry in reversed(self.entries) if entry.seq == seq), None)

    def value(self, name: str) -> Value:
        """Return the class id of a photo, or the table of classes; None if there is none."""
        standing = (value for seq, value in reversed(self._values.get(name, ())) if seq not in self.undone)
        return next(standing, None)

    def values(self) -> dict[str, Value]:
        """Return the class id of every labelled photo, and the classes under `CLASSES`."""
        found = {name: self.value(name) for name in self._values}
        return {name: value for name, value in found.items() if value is not None}

    def changed_since(self, seq: int) -> dict[str, Value]:
        """Return what changed after an entry: photo -> class id or None, and the classes under `CLASSES`."""
        return {name: self.value(name) for name, last in self._changed.items() if last > seq}

    def changed_at(self, name: str) -> int:
        return self._changed.get(name, 0)

    def last_undoable(self, tab: str) -> Entry | None:
        """Return the last entry of a tab that can be undone; with an empty tab, of any."""
        return next((each for each in reversed(self.entries) if self.is_undoable(each) and each.tab in (tab, "")), None)

    def is_undoable(self, entry: Entry) -> bool:
        return entry.kind in ("label", "classes") and entry.seq not in self.undone


class Journal:
    """The open journal of a project. All methods may be called from several threads."""

    def __init__(self, folder: Path) -> None:
        self.file, self.snapshot_file = folder / "journal.jsonl", folder / "snapshot.json"
        self.problems: list[str] = []
        self._lock = threading.RLock()
        self.state = self._read()
        self._stream = open_in_place(self.file, "ab")
        self._end_last_line()
        self._size = os.fstat(self._stream.fileno()).st_size
        self._snapshot_seq = self.state.seq

    def close(self) -> None:
        with self._lock:
            if self.state.seq > self._snapshot_seq:
                self._write_snapshot()
            self._stream.close()

    @property
    def seq(self) -> int:
        """The number of the last entry."""
        return self.state.seq

    def label(self, labels: Mapping[str, int | None], tab: str = "", seen: int | None = None) -> Entry:
        """Give photos their classes, or None to take a label away.

        ``seen`` is the last entry that the tab knows: if another tab has changed one of the photos since, nothing is
        written and a `Conflict` names them.
        """
        with self._lock:
            if seen is not None:
                changed = tuple(name for name in labels if self.state.changed_at(name) > seen)
                if changed:
                    raise Conflict(changed)
            return self._append("label", tab, changes=dict(labels))

    def set_classes(self, table: Mapping[str, Any], tab: str = "") -> Entry:
        """Replace the table of classes."""
        with self._lock:
            return self._append("classes", tab, changes={CLASSES: dict(table)})

    def undo(self, tab: str = "", seq: int | None = None) -> Entry:
        """Undo an entry, by default the last one of the tab."""
        with self._lock:
            entry = self.state.last_undoable(tab) if seq is None else self.state.find(seq)
            if entry is None or not self.state.is_undoable(entry):
                raise UserError("there is nothing to undo.")
            return self._append("undo", tab, of=entry.seq)

    def redo(self, seq: int, tab: str = "") -> Entry:
        """Take back that an entry was undone."""
        with self._lock:
            if seq not in self.state.undone:
                raise UserError(f"entry {seq} is not undone.")
            return self._append("redo", tab, of=seq)

    def history(self, count: int) -> list[tuple[Entry, bool]]:
        """Return the last labels and changes of the classes, latest first, and whether each is undone."""
        with self._lock:
            shown = [entry for entry in self.state.entries if entry.kind in ("label", "classes")]
            return [(entry, entry.seq in self.state.undone) for entry in reversed(shown[-count:])]

    def classes(self) -> dict[str, Any] | None:
        with self._lock:
            table: dict[str, Any] | None = self.state.value(CLASSES)
            return table

    def labels(self) -> dict[str, int]:
        """Return the class id of every labelled photo."""
        with self._lock:
            return {name: value for name, value in self.state.values().items() if name != CLASSES}

    def changes(self, since: int) -> dict[str, int | None]:
        """Return the photos whose labels changed after an entry, with their class ids."""
        with self._lock:
            return {name: value for name, value in self.state.changed_since(since).items() if name != CLASSES}

    def _append(self, kind: Kind, tab: str, changes: Mapping[str, Value] | None = None, of: int = 0) -> Entry:
        entry = Entry(self.state.seq + 1, kind, round(time.time(), 3), tab, changes or {}, of)
        self._write(entry.to_line())
        self.state.apply(entry)
        if entry.seq - self._snapshot_seq >= SNAPSHOT_EVERY:
            self._write_snapshot()
        return entry

    def _write(self, line: bytes) -> None:
        """Append a line and wait until it is on the disk; if that fails, the file is as it was before."""
        handle = self._stream.fileno()
        try:
            written = 0
            while written < len(line):
                written += os.write(handle, line[written:])
            os.fsync(handle)
        except OSError as error:
            os.ftruncate(handle, self._size)
            raise cannot_write(self.file, error) from error
        self._size += len(line)

    def _write_snapshot(self) -> None:
        try:
            write_json(self.snapshot_file, _sealed({"seq": self.state.seq, "values": self.state.values()}))
        except UserError as error:  # the journal has everything; the snapshot is a second copy
            self.problems.append(f"there is no new snapshot of the labels: {error}")
        self._snapshot_seq = self.state.seq

    def _end_last_line(self) -> None:
        """Remove what a kill left of a line that was never acknowledged, or end a complete last line."""
        content = self.file.read_bytes()
        rest = content.rpartition(b"\n")[2]
        if not rest:
            return
        if _is_entry(rest):
            os.write(self._stream.fileno(), b"\n")
        else:
            os.truncate(self.file, len(content) - len(rest))

    def _read(self) -> State:
        entries = self._read_entries()
        base = self._read_snapshot()
        state = State()
        missing = set(range(1, base[0] + 1)) - {entry.seq for entry in entries} if base else set()
        if base is not None and missing:
            self.problems.append(
                f"{len(missing)} entries of {self.file} are missing; their labels come from {self.snapshot_file.name}."
            )
            state.apply(Entry(base[0], "label", changes=base[1]))
            entries = [entry for entry in entries if entry.seq > base[0]]
        for entry in entries:
            state.apply(entry)
        return state

    def _read_entries(self) -> list[Entry]:
        if not exists(self.file):
            return []
        with open_regular(self.file) as stream:
            lines = stream.read().split(b"\n")
        entries: list[Entry] = []
        for number, line in enumerate(lines, 1):
            try:
                entries += [Entry.from_line(line)] if line else []
            except (ValueError, RecursionError):
                if number < len(lines):  # a kill may have cut the last one short, which was not acknowledged
                    self.problems.append(f"line {number} of {self.file} cannot be read and is skipped.")
        return sorted(entries, key=lambda entry: entry.seq)

    def _read_snapshot(self) -> tuple[int, dict[str, Value]] | None:
        if not exists(self.snapshot_file):
            return None
        try:
            found = read_json_object(self.snapshot_file)
        except UserError as error:
            self.problems.append(str(error))
            return None
        if found.pop("crc", None) != _checksum(found):
            self.problems.append(f"{self.snapshot_file} is damaged and is not used.")
            return None
        return int(found["seq"]), dict(found["values"])


def _sealed(values: dict[str, Any]) -> dict[str, Any]:
    return {**values, "crc": _checksum(values)}


def _is_entry(line: bytes) -> bool:
    try:
        Entry.from_line(line)
    except (ValueError, RecursionError):
        return False
    return True
