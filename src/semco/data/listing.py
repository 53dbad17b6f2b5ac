"""The images of a source with their labels, before any of them is decoded.

An entry names one image and can be opened. A part stores its entries in columns, so that a million of them take little
memory: entries are made when they are asked for.
"""

from __future__ import annotations

import io
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import BinaryIO, Protocol

import numpy as np
from numpy.typing import NDArray

from semco.files import open_regular

UNLABELLED = -1


class Store(Protocol):
    """Where the bytes of images are: in files of their own, or in an archive or a table that holds many."""

    def open(self, entry: Entry) -> BinaryIO:
        """Open an image for reading; a `UserError` says why it cannot be opened."""
        ...

    def file(self, entry: Entry) -> Path:
        """Return the file on the disk that holds the bytes of an image."""
        ...


@dataclass(frozen=True, slots=True)
class Entry:
    """One image: its name for people, and where its bytes are."""

    name: str  # the path of its file; in an archive: the path of the archive, a slash and the name in the archive
    store: Store
    place: int = 0  # where the store finds it: an offset or a row; files do not need it
    size: int = 0  # number of bytes, for stores that need it

    def __str__(self) -> str:
        return self.name

    def open(self) -> BinaryIO:
        return self.store.open(self)

    def file(self) -> Path:
        return self.store.file(self)


class Files:
    """Images that are files of their own, whose name is the path."""

    def open(self, entry: Entry) -> BinaryIO:
        return open_regular(Path(entry.name))

    def file(self, entry: Entry) -> Path:
        return Path(entry.name)


FILES = Files()


@dataclass(frozen=True)
class InMemory:
    """The bytes of one image that is not a file, for example of an HTTP request."""

    content: bytes

    def open(self, entry: Entry) -> BinaryIO:  # noqa: ARG002
        return io.BytesIO(self.content)

    def file(self, entry: Entry) -> Path:
        return Path(entry.name)


def as_entry(image: Path | Entry) -> Entry:
    """Return the entry of an image, which may be given as the path of its file."""
    return image if isinstance(image, Entry) else Entry(str(image), FILES)


@dataclass(frozen=True)
class Part:
    """Images and their labels, in a fixed order: a sequence of entries, stored in columns."""

    names: list[str] = field(default_factory=list)
    labels: array[int] = field(default_factory=lambda: array("i"))  # class ids, -1 = unlabelled
    held_out: array[int] = field(default_factory=lambda: array("b"))  # 1: the source holds it out for validation
    stores: list[Store] = field(default_factory=list)
    _store_ids: array[int] = field(default_factory=lambda: array("i"))
    _places: array[int] = field(default_factory=lambda: array("q"))
    _sizes: array[int] = field(default_factory=lambda: array("q"))

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, position: int) -> Entry:
        store = self.stores[self._store_ids[position]]
        return Entry(self.names[position], store, self._places[position], self._sizes[position])

    def __iter__(self) -> Iterator[Entry]:
        return (self[position] for position in range(len(self)))

    def add(self, entry: Entry, label: int = UNLABELLED, *, held_out: bool = False) -> None:
        if not self.stores or self.stores[-1] is not entry.store:
            self.stores.append(entry.store)
        self.names.append(entry.name)
        self.labels.append(label)
        self.held_out.append(held_out)
        self._store_ids.append(len(self.stores) - 1)
        self._places.append(entry.place)
        self._sizes.append(entry.size)

    def add_files(self, paths: Iterable[str], label: int = UNLABELLED, *, held_out: bool = False) -> None:
        """Add image files by their paths."""
        for path in paths:
            self.add(Entry(path, FILES), label, held_out=held_out)

    def relabelled(self, new_ids: NDArray[np.int64]) -> Part:
        """Return the part with class id k replaced by ``new_ids[k]``; images with -2 there are left out."""
        labels = new_ids[np.asarray(self.labels, dtype=np.int64)] if len(self) else np.zeros(0, np.int64)
        kept = np.flatnonzero(labels >= UNLABELLED)
        if len(kept) == len(self):
            return replace(self, labels=array("i", labels.tolist()))
        part = Part()
        for position in kept.tolist():
            part.add(self[position], int(labels[position]), held_out=bool(self.held_out[position]))
        return part


@dataclass(frozen=True)
class Listing:
    """The classes of a source and its images, not yet decoded."""

    class_names: tuple[str, ...]
    train: Part
    test: Part
    ignored: Counter[str] = field(default_factory=Counter)  # files that are not images of a class: number per suffix
    notes: tuple[str, ...] = ()  # what the user should know about how the source was read
    attributes: Path | None = None  # a table of class attributes that was found beside the images

    def without_unlabelled_classes(self) -> Listing:
        """Return the listing without the classes that have no labelled training image, which a note names."""
        labels = np.asarray(self.train.labels, dtype=np.int64)
        learned = labels[(labels >= 0) & (np.asarray(self.train.held_out) == 0)]
        counts = np.bincount(learned, minlength=len(self.class_names))
        missing = [name for name, count in zip(self.class_names, counts, strict=True) if count == 0]
        if not missing or len(self.class_names) - len(missing) < 2:
            return self
        new_ids = np.full(len(self.class_names) + 1, -2, dtype=np.int64)
        new_ids[np.flatnonzero(counts)] = np.arange(np.count_nonzero(counts))
        new_ids[UNLABELLED] = UNLABELLED
        some = ", ".join(missing[:5]) + (", ..." if len(missing) > 5 else "")
        note = f"{len(missing):,} class(es) without a labelled training image are left out: {some}"
        return replace(
            self,
            class_names=tuple(name for name, count in zip(self.class_names, counts, strict=True) if count),
            train=self.train.relabelled(new_ids),
            test=self.test.relabelled(new_ids),
            notes=(*self.notes, note),
        )
