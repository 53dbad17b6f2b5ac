"""Which files a run was trained on: data.json to read, and data_files.parquet to find out later what has changed.

A file is recorded by its path below the data, its label and its size; pixels have checksums of their own (`seal`).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from semco.config import DataConfig
from semco.data.datasets import Dataset
from semco.data.listing import Listing
from semco.errors import UserError
from semco.files import absolute, atomic_path, encode_text, exists
from semco.run.seal import read_with_digest, write_with_digest

DATA, FILES = "data.json", "data_files.parquet"
NAMED = 3  # files of a kind that a message names

Record = dict[str, tuple[str, int]]  # path -> label, size; -1: the size is not known


def write_data_record(folder: Path, config: DataConfig, dataset: Dataset) -> None:
    """Write what a run was trained on; data sets without files have no table of them."""
    values = {"notes": list(dataset.notes), "skipped": list(dataset.skipped), "ignored": dict(dataset.ignored)}
    write_with_digest(folder / DATA, values)
    if dataset.train_paths is None:
        return
    found = _record(_rows_of_dataset(dataset), _root(config))
    table = pa.table(
        {
            "path": pa.array([encode_text(path) for path in found], pa.binary()),
            "label": pa.array([encode_text(label) for label, _ in found.values()], pa.binary()).dictionary_encode(),
            "bytes": pa.array([size for _, size in found.values()], pa.int64()),
        }
    )
    with atomic_path(folder / FILES) as temporary:
        parquet.write_table(table, temporary, compression="zstd")


def read_data(folder: Path) -> dict[str, Any]:
    """Return notes, skipped images and ignored files of a run; empty if they are not written yet."""
    return read_with_digest(folder / DATA) if exists(folder / DATA) else {}


@dataclass(frozen=True)
class Changes:
    """Files that differ from those of a run."""

    added: Sequence[str]
    removed: Sequence[str]
    relabelled: Sequence[str]
    resized: Sequence[str]

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.relabelled or self.resized)

    def describe(self) -> str:
        """Return the number of files of each kind, and some of their names."""
        kinds = {"added": self.added, "removed": self.removed, "relabelled": self.relabelled, "changed": self.resized}
        return "; ".join(
            f"{len(paths):,} {kind} ({', '.join(paths[:NAMED])}{', ...' if len(paths) > NAMED else ''})"
            for kind, paths in kinds.items()
            if paths
        )


def changes_of_dataset(folder: Path, config: DataConfig, dataset: Dataset) -> Changes | None:
    """Return how the files of a data set differ from those of a run; None if these are not known."""
    saved = _read(folder)
    if saved is None or dataset.train_paths is None:
        return None
    return _compare(saved, _record(_rows_of_dataset(dataset), _root(config)))


def changes_of_listing(folder: Path, config: DataConfig, listing: Listing) -> Changes | None:
    """Return how listed files differ from those of a run, which skipped some; None if these are not known."""
    saved = _read(folder)
    if saved is None:
        return None
    skipped = _skipped_names(read_data(folder).get("skipped", ()))
    rows = [row for row in _rows_of_listing(listing) if row[0] not in skipped]
    return _compare(saved, _record(rows, _root(config)))


def _skipped_names(skipped: Iterable[str]) -> set[str]:
    """Return every name that "NAME (reason)" may stand for, because both may contain brackets."""
    return {text[:i] for text in skipped for i in range(len(text)) if text.startswith(" (", i)}


def _compare(saved: Record, current: Record) -> Changes:
    both = saved.keys() & current.keys()
    sizes = {path for path in both if -1 not in (saved[path][1], current[path][1])}
    return Changes(
        added=sorted(current.keys() - saved.keys()),
        removed=sorted(saved.keys() - current.keys()),
        relabelled=sorted(path for path in both if saved[path][0] != current[path][0]),
        resized=sorted(path for path in sizes if saved[path][1] != current[path][1]),
    )


Row = tuple[str, str]  # path, label


def _rows_of_dataset(dataset: Dataset) -> Iterable[Row]:
    names = (*dataset.class_names, "")
    yield from zip(dataset.train_paths or (), (names[i] for i in dataset.train_labels.tolist()), strict=True)
    if dataset.test_paths is not None and dataset.test_labels is not None:
        yield from zip(dataset.test_paths, (names[i] for i in dataset.test_labels.tolist()), strict=True)


def _rows_of_listing(listing: Listing) -> Iterable[Row]:
    names = (*listing.class_names, "")
    for part in (listing.train, listing.test):
        yield from zip(part.names, (names[i] for i in np.asarray(part.labels, dtype=np.int64)), strict=True)


def _record(rows: Iterable[Row], root: str) -> Record:
    return {path.removeprefix(root).lstrip(os.sep): (label, _size(path)) for path, label in rows}


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size  # noqa: PTH116 (for a million paths)
    except (OSError, ValueError):
        return -1  # part of an archive


def _root(config: DataConfig) -> str:
    return str(absolute(Path(config.root or config.source).expanduser()))


def _read(folder: Path) -> Record | None:
    if not exists(folder / FILES):
        return None
    try:
        columns: Mapping[str, list[Any]] = parquet.read_table(folder / FILES).to_pydict()
        texts = [[text.decode("utf-8", "surrogateescape") for text in columns[name]] for name in ("path", "label")]
        return {path: (label, size) for path, label, size in zip(*texts, columns["bytes"], strict=True)}
    except (pa.ArrowException, OSError, KeyError, ValueError, TypeError) as error:
        raise UserError(f"{folder / FILES} is damaged ({error}): remove it; the run does not need it.") from None
