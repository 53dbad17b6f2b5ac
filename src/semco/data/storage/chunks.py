"""An array in a file that is made chunk by chunk, once for many runs.

The array has a folder of its own. ``progress.json`` holds the checksum, the number of rows and a note of each finished
chunk, and is replaced after the chunk is on disk: a kill at any instant costs one chunk, and a damaged chunk is noticed
and made again. A chunk may have fewer rows than it could; the next one follows without a gap.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from semco.errors import UserError
from semco.files import (
    cannot_write,
    lock,
    make_private,
    open_in_place,
    open_no_detour,
    read_json_object,
    write_json,
)

PROGRESS, LOCK = "progress.json", ".lock"
# Seconds between two checks whether another process has finished the same file.
WAIT = 0.5
# How often the work starts again if its folder is deleted.
ATTEMPTS = 10

Array = NDArray[Any]
Report = Callable[[int, int], None]  # called with the number of rows done (or left out), and their total number


@dataclass(frozen=True)
class Chunk:
    """The rows of a chunk, and a note about them that JSON can hold."""

    rows: Array
    note: Any = None


@dataclass(frozen=True)
class Record:
    """What ``progress.json`` holds about a finished chunk."""

    checksum: str
    rows: int  # their number
    note: Any


@dataclass(frozen=True)
class ChunkedFile:
    """Where an array is, and its largest shape."""

    data: Path  # the file; its folder holds nothing else
    dtype: np.dtype[Any]
    shape: tuple[int, ...]  # with all rows
    chunk_rows: int  # most rows of a chunk
    content: str  # what the array is, for messages
    advice: str  # how to make it smaller, for messages

    @property
    def folder(self) -> Path:
        return self.data.parent

    @property
    def row_bytes(self) -> int:
        return self.dtype.itemsize * math.prod(self.shape[1:])

    @property
    def size(self) -> int:
        """Bytes of the file with all rows."""
        return self.shape[0] * self.row_bytes

    @property
    def chunks(self) -> int:
        return math.ceil(self.shape[0] / self.chunk_rows)

    def mark_used(self) -> None:
        """Record that the file was used now, for `semco.data.storage.folders.remove_oldest`."""
        with suppress(OSError):  # a folder that cannot be written
            os.utime(self.folder / PROGRESS)

    def count_recorded(self) -> int:
        """Return how many rows are recorded as made; whether they are intact is not checked."""
        return sum(each.rows for each in self._records())

    def finished(self) -> list[Record] | None:
        """Return what is recorded about the chunks; None unless all of them are there and are what was written."""
        try:
            records = self._records()
            complete = len(records) == self.chunks and all(self._check(records))
            if not complete or self.data.stat().st_size != self.row_bytes * sum(each.rows for each in records):
                return None
        except OSError:  # removed by another process
            return None
        return records

    def fill(self, make: Callable[[int], Chunk], report: Report) -> list[Record]:
        """Make the chunks that are missing; another process that makes the same file is waited for.

        If somebody deletes the folder meanwhile, the work starts again.
        """
        for _ in range(ATTEMPTS):
            with suppress(VanishedError):
                return self._fill_once(make, report)
        raise UserError(f"{self.folder} was deleted {ATTEMPTS} times while it was made; keep it until the run ends.")

    def _fill_once(self, make: Callable[[int], Chunk], report: Report) -> list[Record]:
        try:
            self.folder.parent.mkdir(parents=True, exist_ok=True)
            make_private(self.folder)
        except FileNotFoundError:
            raise VanishedError from None
        except OSError as error:
            raise cannot_write(self.data, error) from error
        with locked(self.folder) as is_ours:
            try:
                self._reserve()
                records = self._fill(make, report, is_ours)
            except (OSError, UserError) as error:
                if not is_ours() or _is_deleted(error):
                    raise VanishedError from None
                raise (error if isinstance(error, UserError) else cannot_write(self.data, error)) from error
            if not is_ours():
                raise VanishedError
        return records

    def _fill(self, make: Callable[[int], Chunk], report: Report, is_ours: Callable[[], bool]) -> list[Record]:
        records = self._records()
        intact = self._check(records)
        start = 0
        # Not through a memory map: there, a full disk would kill the process instead of raising an error.
        with open_in_place(self.data, "r+b") as stream:
            for number in range(self.chunks):
                if number >= len(records) or not intact[number]:
                    chunk = make(number)
                    self._write(stream, start, chunk.rows)
                    record = Record(_checksum(chunk.rows, chunk.note), len(chunk.rows), chunk.note)
                    if number < len(records) and records[number].rows != record.rows:
                        del records[number:]  # the chunks that follow are at other places now
                    records[number : number + 1] = [record]
                    if not is_ours():
                        raise VanishedError  # at once, because a chunk may take long
                    self._save(records)
                start += records[number].rows
                report(min((number + 1) * self.chunk_rows, self.shape[0]), self.shape[0])
            stream.truncate(start * self.row_bytes)
            if not os.path.samestat(self.data.lstat(), os.fstat(stream.fileno())):
                raise VanishedError  # somebody has put another file in its place
        return records

    def _reserve(self) -> None:
        """Give the file its size; a disk without room for it is a `UserError`."""
        with open_in_place(self.data, "ab") as stream:
            # Not its size, because parts that were not written take no room yet.
            written = 512 * getattr(os.fstat(stream.fileno()), "st_blocks", 0)
            free = shutil.disk_usage(self.folder).free + written
            if self.size > free:
                raise UserError(
                    f"{self.folder} has room for {free / 1e9:.1f} GB, and {self.content} take "
                    f"{self.size / 1e9:.1f} GB: make room, or {self.advice}."
                )
            stream.truncate(self.size)

    def _write(self, stream: IO[bytes], start: int, rows: Array) -> None:
        """Write rows and wait until they are on disk."""
        stream.seek(start * self.row_bytes)
        stream.write(np.ascontiguousarray(rows, self.dtype).data)
        stream.flush()
        os.fsync(stream.fileno())

    def _save(self, records: Sequence[Record]) -> None:
        write_json(
            self.folder / PROGRESS,
            {
                "checksums": [each.checksum for each in records],
                "rows": [each.rows for each in records],
                "notes": [each.note for each in records],
            },
        )

    def _records(self) -> list[Record]:
        """Return what is recorded about the chunks, as far as it is valid; a damaged file records nothing."""
        if not (self.folder / PROGRESS).is_file():
            return []
        try:
            saved = read_json_object(self.folder / PROGRESS)
        except UserError:
            return []
        columns = [saved.get(name) for name in ("checksums", "rows", "notes")]
        if not all(isinstance(column, list) for column in columns):
            return []
        records = []
        for checksum, rows, note in zip(*columns[:3], strict=False):
            if not (isinstance(checksum, str) and type(rows) is int and 0 <= rows <= self.chunk_rows):
                break
            records.append(Record(checksum, rows, note))
        return records[: self.chunks]

    def _check(self, records: Sequence[Record]) -> list[bool]:
        """Return for each recorded chunk whether the file holds what was written; every byte is read."""
        if not records:
            return []
        ends = np.cumsum([each.rows for each in records]).tolist()
        with ThreadPoolExecutor(max_workers=os.cpu_count()) as threads:  # checksums are computed without the GIL
            return list(threads.map(self._is_intact, records, ends))

    def _is_intact(self, record: Record, end: int) -> bool:
        # Not through a memory map, whose pages would count as memory of this process.
        with open_no_detour(self.data, "rb") as stream:
            stream.seek((end - record.rows) * self.row_bytes)
            content = stream.read(record.rows * self.row_bytes)
        return record.checksum == _checksum(np.frombuffer(content, np.uint8), record.note)


class VanishedError(Exception):
    """The folder of an array was deleted while its chunks were made."""


@contextmanager
def locked(folder: Path, *, wait: bool = True) -> Iterator[Callable[[], bool]]:
    """Lock a folder for the block; what is yielded returns whether it is still the folder that was locked.

    A folder that another process has locked is waited for, or is a `BlockingIOError`; one that was deleted meanwhile is
    a `VanishedError`.
    """
    file = folder / LOCK
    try:
        stream = open_in_place(file, "a")
    except UserError as error:
        if folder.exists() and not _is_deleted(error):
            raise
        raise VanishedError from None
    with stream:
        while not lock(stream):
            if not wait:
                raise BlockingIOError
            time.sleep(WAIT)

        def is_ours() -> bool:
            try:
                return os.path.samestat(file.lstat(), os.fstat(stream.fileno()))
            except OSError:
                return False

        if not is_ours():
            raise VanishedError
        yield is_ours


def _is_deleted(error: Exception) -> bool:
    """Return whether a file is missing: a folder is deleted file by file, perhaps with the lock last."""
    return isinstance(error, FileNotFoundError) or isinstance(error.__cause__, FileNotFoundError)


def _checksum(rows: Array, note: Any) -> str:
    digest = hashlib.blake2b(np.ascontiguousarray(rows).data, digest_size=16)
    if note is not None:
        digest.update(json.dumps(note, sort_keys=True).encode())
    return digest.hexdigest()
