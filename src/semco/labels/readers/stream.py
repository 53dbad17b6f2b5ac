"""Bytes of a plain, gzipped or zipped file in blocks of whole lines, and what every reader reports."""

from __future__ import annotations

import gzip
import io
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from semco.errors import UserError

# report(stage, done, total): total is None when it is not known.
Report = Callable[[str, int, int | None], None]

BLOCK = 16 * 2**20
_BROKEN = (EOFError, zlib.error, gzip.BadGzipFile, zipfile.BadZipFile)


def silent(stage: str, done: int, total: int | None) -> None:
    """A report to nobody."""


class Progress:
    """Tells how many bytes of a file were read, compressed ones for a compressed file."""

    def __init__(self, path: Path, raw: IO[bytes], stage: str, report: Report) -> None:
        self._total = path.stat().st_size
        self._raw, self._stage, self._report = raw, stage, report

    def tell(self) -> None:
        self._report(self._stage, min(self._raw.tell(), self._total), self._total)


@contextmanager
def open_bytes(path: Path, stage: str, report: Report) -> Iterator[tuple[IO[bytes], Progress]]:
    """The unpacked bytes of a file, and its progress; damage to the packing becomes a `UserError`."""
    path = Path(path)
    if not path.is_file():
        raise UserError(f"{path} is not a file; get it with `semco labels fetch`.")
    with path.open("rb") as raw:
        progress = Progress(path, raw, stage, report)
        try:
            with _unpacked(raw) as stream:
                yield stream, progress
        except _BROKEN as error:
            raise UserError(f"{path} is truncated or damaged ({error}); fetch it again.") from None


def line_blocks(stream: IO[bytes], progress: Progress) -> Iterator[bytes]:
    """Blocks that end with a line's end (the last one perhaps without)."""
    rest = b""
    while chunk := stream.read(BLOCK):
        cut = chunk.rfind(b"\n") + 1
        if cut:
            yield rest + chunk[:cut]
            rest = chunk[cut:]
        else:
            rest += chunk
        progress.tell()
    if rest:
        yield rest


def decode(word: bytes) -> tuple[str, bool]:
    """A word as text, and whether it had to be read as Latin-1 because it is not UTF-8."""
    try:
        return word.decode(), False
    except UnicodeDecodeError:
        return word.decode("latin-1"), True


@contextmanager
def _unpacked(raw: IO[bytes]) -> Iterator[IO[bytes]]:
    magic = raw.read(4)
    raw.seek(0)
    if magic[:2] == b"\x1f\x8b":
        with gzip.GzipFile(fileobj=raw) as unzipped:
            yield io.BufferedReader(unzipped, 2**20)
    elif magic == b"PK\x03\x04":
        with zipfile.ZipFile(raw) as archive, archive.open(_largest(archive)) as member:
            yield member
    else:
        yield raw


def _largest(archive: zipfile.ZipFile) -> zipfile.ZipInfo:
    """An archive of several dimensions (glove.6B.zip) stands for its largest file."""
    members = [member for member in archive.infolist() if not member.is_dir()]
    if not members:
        raise zipfile.BadZipFile("the archive is empty")
    return max(members, key=lambda member: member.file_size)
