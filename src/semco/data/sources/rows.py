"""A listing from rows: images in any order, each with the name of its class, if it has one, and its part."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

import numpy as np

from semco.data.datasets import choose_classes
from semco.data.listing import UNLABELLED, Entry, Listing, Part
from semco.data.names import readable_class, wordnet_notes
from semco.errors import UserError, brief
from semco.files import read_text

# Bytes of a list that are read: about ten million lines.
MOST_BYTES = 1 << 30


def lines_of(file: Path) -> Iterator[tuple[int, str]]:
    """Yield the number and the text of each line that is not blank."""
    for number, line in enumerate(read_text(file, MOST_BYTES, "utf-8-sig").splitlines(), 1):
        if line.strip():
            yield number, line.strip()


def numbered(file: Path) -> dict[str, str]:
    """Return the lines "1 001.Black_footed_Albatross/a.jpg" of a list as a table from the first word to the rest."""
    table: dict[str, str] = {}
    for number, line in lines_of(file):
        key, _, rest = line.partition(" ")
        if not rest.strip():
            raise UserError(f"{file}, line {number}: {brief(line)} does not have two columns; restore the file.")
        table[key] = rest.strip()
    return table


def labelled_paths(file: Path) -> Iterator[tuple[str, str]]:
    """Yield path and class number of the lines "real/airplane/real_002_000001.jpg 1" of a list."""
    for number, line in lines_of(file):
        path, _, label = line.rpartition(" ")
        if not path.strip() or not label.isdecimal():
            raise UserError(f"{file}, line {number}: {brief(line)} is not a path and a class number; correct the line.")
        yield path.strip(), label


Role = Literal["train", "validation", "test"]
# What folders, shards and columns call the parts of a data set.
ROLES: dict[str, Role] = {
    "train": "train",
    "training": "train",
    "": "train",
    "val": "validation",
    "valid": "validation",
    "validation": "validation",
    "dev": "validation",
    "test": "test",
    "testing": "test",
}


class Rows:
    """Collects images; class ids follow the sorted names of the classes, whatever the order of the rows.

    ``order`` are names in an order of their own, which come first.
    """

    def __init__(self, order: Sequence[str] = ()) -> None:
        self._rank = {name: position for position, name in enumerate(order)}
        self.train, self.test = Part(), Part()
        self.notes: list[str] = []
        self.ignored: Counter[str] = Counter()
        self._ids: dict[str, int] = {}

    def add(self, entry: Entry, class_name: str | None, role: Role = "train") -> None:
        """Add an image; without a class it is unlabelled, and of no use as a validation or test image."""
        if class_name is None:
            if role == "train":
                self.train.add(entry)
            return
        class_id = self._ids.setdefault(class_name, len(self._ids))
        part = self.test if role == "test" else self.train
        part.add(entry, class_id, held_out=role == "validation")

    def listing(self, source: Path, classes: Sequence[str] | None = None) -> Listing:
        """Return the listing; ``classes`` selects some of the classes, in that order."""
        given = sorted(self._ids, key=lambda name: (self._rank.get(name, len(self._rank)), name))
        found = _distinct_names(given)
        if len(found) < 2:
            raise UserError(
                f"{source} has labels of {len(found)} class(es) ({', '.join(found) or 'none'}): "
                "label images of at least two classes."
            )
        order = list(range(len(found))) if classes is None else choose_classes(found, classes)
        new_ids = np.full(len(found) + 1, -2, dtype=np.int64)
        for position, chosen in enumerate(order):
            new_ids[self._ids[given[chosen]]] = position
        new_ids[UNLABELLED] = UNLABELLED
        names = tuple(found[i] for i in order)
        parts = [part.relabelled(new_ids) for part in (self.train, self.test)]
        notes = (*wordnet_notes(given), *self.notes)
        return Listing(names, parts[0], parts[1], self.ignored, notes).without_unlabelled_classes()


def _distinct_names(given: Sequence[str]) -> list[str]:
    """Return the names with WordNet ids replaced, unless that would give two classes the same name."""
    names = [readable_class(name) for name in given]
    return names if len(set(names)) == len(names) else list(given)


def path_inside(root: Path, name: str) -> str:
    """Return the path of a file that a list names; a name that leads out of the folder is a `UserError`."""
    parts = name.replace("\\", "/").split("/") if os.name != "posix" else name.split("/")
    if not name.strip() or "\0" in name or ".." in parts or os.path.isabs(name):  # noqa: PTH117 (a name, not a path)
        raise UserError(f"{brief(name)} is not the name of a file in {root}: give paths relative to that folder.")
    return os.path.join(root, name)  # noqa: PTH118 (a million strings, no Path objects)
