"""Predictions in parts: a folder with the list of the photos and one Parquet file per part of the list.

The list is written once, before anything is predicted. A part that exists is complete, so predicting can be stopped at
any instant and continued. All parts together, in order, are one table.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from semco.data.listing import FILES, Entry, Store
from semco.data.sources.shards import Shard
from semco.errors import UserError
from semco.files import atomic_path, cannot_read

# Readers of a folder of Parquet files leave out names that begin with "_".
LIST = "_photos.parquet"
KEY = b"semco"
SCHEMA = pa.schema(
    [("name", pa.binary()), ("archive", pa.binary()), ("place", pa.int64()), ("size", pa.int64())]
)  # file names need not be UTF-8


@dataclass(frozen=True)
class Parts:
    """The parts of a list of photos; each row group of the list is one part."""

    folder: Path
    count: int

    def file(self, number: int) -> Path:
        return self.folder / f"part-{number:06}.parquet"

    def missing(self) -> list[int]:
        """Return the numbers of the parts that are not written yet."""
        return [number for number in range(self.count) if not self.file(number).is_file()]

    def entries(self, number: int) -> list[Entry]:
        """Return the photos of a part."""
        with pq.ParquetFile(self.folder / LIST) as listed:
            rows = listed.read_row_group(number).to_pylist()
        return [Entry(os.fsdecode(row["name"]), _store(row["archive"]), row["place"], row["size"]) for row in rows]


def _store(archive: bytes | None) -> Store:
    return FILES if archive is None else Shard(Path(os.fsdecode(archive)))


def write_list(folder: Path, photos: Iterator[Entry], per_part: int, request: Mapping[str, Any]) -> Parts:
    """Write the list of the photos and the request; only one part at a time is in memory."""
    parts = 0
    schema = SCHEMA.with_metadata({KEY: json.dumps(dict(request), sort_keys=True).encode()})
    with atomic_path(folder / LIST) as temporary, pq.ParquetWriter(temporary, schema) as writer:
        while part := list(islice(photos, per_part)):
            writer.write_table(pa.Table.from_pylist(list(map(_row, part)), schema), row_group_size=per_part)
            parts += 1
        if not parts:
            raise UserError("no images to predict; give image files, folders of images or lists of them.")
    return Parts(folder, parts)


def _row(entry: Entry) -> dict[str, Any]:
    archive = os.fsencode(entry.file()) if isinstance(entry.store, Shard) else None
    return {"name": os.fsencode(entry.name), "archive": archive, "place": entry.place, "size": entry.size}


def open_list(folder: Path, request: Mapping[str, Any]) -> Parts | None:
    """Return the parts of a folder that was started with the same request; None if there is no list."""
    file = folder / LIST
    if not file.is_file():
        return None
    try:
        found = pq.read_metadata(file)
    except (OSError, pa.ArrowException) as error:
        raise cannot_read(file, error) from None
    saved = json.loads((found.metadata or {}).get(KEY, b"{}"))
    changes = sorted(name for name in {*saved, *request} if saved.get(name) != request.get(name))
    if changes:
        raise UserError(
            f"{folder} holds predictions of another request ({', '.join(changes)}); choose another folder, or force it "
            "to be overwritten."
        )
    return Parts(folder, found.num_row_groups)


def remove_parts(folder: Path) -> None:
    """Remove the list and the parts of a folder, and nothing else."""
    for file in [folder / LIST, *folder.glob("part-[0-9]*.parquet")]:
        file.unlink(missing_ok=True)
