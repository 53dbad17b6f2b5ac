"""One entry of the journal, and its line: a JSON object with a sequence number and a checksum.

The content of a line is checked when it is read: an edited file may hold anything, even with a correct checksum.
"""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from semco.studio.journal.class_table import check_plain, is_class_number

Kind = Literal["label", "classes", "undo", "redo"]
CLASSES = ""  # the name under which the classes are kept among the photos; no photo has an empty name
LARGEST_GAP = 10**6  # most entries that may be missing before a line; a higher number is invalid

Value = Any  # of a photo: the number of its class or None; of the classes: their table as plain values


@dataclass(frozen=True)
class Entry:
    """One change."""

    seq: int
    kind: Kind
    time: float = 0.0
    tab: str = ""
    changes: Mapping[str, Value] = field(default_factory=dict)  # photo -> class number or None; CLASSES -> table
    of: int = 0  # undo and redo: the entry that they concern
    answer: int = 0  # of a label that was given blind, without seeing what the model says: the class that it says

    def to_plain(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if value or name == "seq"}

    @classmethod
    def from_plain(cls, values: Any, place: int) -> Entry:
        """Return the entry of plain values that stand at a place, from 1 on; wrong ones raise a `ValueError`."""
        try:
            entry = cls(**values)
        except TypeError as error:
            raise ValueError(str(error)) from None
        _check(entry, place)
        return entry

    def to_line(self) -> bytes:
        return dump(sealed(self.to_plain())) + b"\n"

    @classmethod
    def from_line(cls, line: bytes, place: int) -> Entry:
        """Return the entry of a line with this number; a damaged one raises a `ValueError` or a `RecursionError`."""
        return cls.from_plain(opened(json.loads(line)), place)


def dump(values: Mapping[str, Any]) -> bytes:
    return json.dumps(values, sort_keys=True, separators=(",", ":")).encode()


def sealed(values: dict[str, Any]) -> dict[str, Any]:
    """Return the values with their checksum."""
    return {**values, "crc": _checksum(values)}


def opened(values: Any) -> dict[str, Any]:
    """Return values without their checksum; raise a `ValueError` if it is wrong."""
    if not isinstance(values, dict) or values.pop("crc", None) != _checksum(values):
        raise ValueError("its checksum is wrong")
    return values


def _checksum(values: Mapping[str, Any]) -> str:
    return f"{zlib.crc32(dump(values)):08x}"


def _check(entry: Entry, place: int) -> None:
    if not _is_whole(entry.seq) or not 1 <= entry.seq <= place + LARGEST_GAP:
        raise ValueError("its number is wrong")
    if not _is_whole(entry.of) or not isinstance(entry.tab, str) or entry.kind not in get_args(Kind):
        raise ValueError("its kind, its tab or the entry that it concerns is wrong")
    if isinstance(entry.time, bool) or not isinstance(entry.time, int | float) or not math.isfinite(entry.time):
        raise ValueError("its time is wrong")
    if not is_class_number(entry.answer):
        raise ValueError("the answer of the model is no number of a class")
    if not isinstance(entry.changes, dict):
        raise ValueError("its changes are wrong")
    if CLASSES in entry.changes:
        check_plain(entry.changes[CLASSES])
    if (CLASSES in entry.changes) != (entry.kind == "classes") and entry.kind in ("label", "classes"):
        raise ValueError("its kind and its changes do not fit")
    labels = [value for name, value in entry.changes.items() if name != CLASSES and value is not None]
    if not all(is_class_number(label) for label in labels):
        raise ValueError("one of its labels is no number of a class")


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
