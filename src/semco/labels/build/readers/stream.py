"""Read plain, gzipped and zipped files in blocks of complete lines."""

from __future__ import annotations

import gzip
import io
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from semco.download import Report
from semco.errors import UserError
from semco.files import ZIP_ERRORS, exists, open_regular, open_zip, open_zip_member

BLOCK = 16 * 2**20  # bytes read at a time
LONGEST_LINE = 4 * BLOCK


class Progress:
    """Reports how many bytes of a file have been read; for a compressed file, compressed bytes."""

    def __init__(self, path: Path, raw: IO[bytes], stage: str, report: Report) -> None:
        self.path = path
        self._total = path.stat().st_size
        self._raw, self._stage, self._report = raw, stage, report

    def update(self) -> None:
        self._report(self._stage, min(self._raw.tell(), self._total), self._total)


@contextmanager
def open_bytes(path: Path, stage: str, report: Report) -> Iterator[tuple[IO[bytes], Progress]]:
    """Yield the decompressed bytes of a file and its progress; a damaged archive raises a `UserError`."""
    path = Path(path)
    if not exists(path):
        raise UserError(f"{path} is not a file; download it with `semco labels fetch`.")
    with open_regular(path) as raw:
        progress = Progress(path, raw, stage, report)
        try:
            with _decompressed(raw) as stream:
                yield stream, progress
        except ZIP_ERRORS as error:
            raise UserError(f"{path} is truncated or damaged ({error}); fetch it again.") from None


def line_blocks(stream: IO[bytes], progress: Progress) -> Iterator[bytes]:
    """Yield blocks of complete lines; the last line may lack its newline."""
    rest = b""
    while chunk := stream.read(BLOCK):
        cut = chunk.rfind(b"\n") + 1
        if cut:
            yield rest + chunk[:cut]
            rest = chunk[cut:]
        else:
            rest += chunk
        if len(rest) > LONGEST_LINE:
            raise UserError(
                f"{progress.path} has a line of more than {LONGEST_LINE:,} bytes; give a text file of vectors."
            )
        progress.update()
    if rest:
        yield rest


def decode(word: bytes) -> tuple[str, bool]:
    """Return a word as text, and whether it was decoded as Latin-1 because it is not valid UTF-8."""
    try:
        return word.decode(), False
    except UnicodeDecodeError:
        return word.decode("latin-1"), True


@contextmanager
def _decompressed(raw: IO[bytes]) -> Iterator[IO[bytes]]:
    magic = raw.read(4)
    raw.seek(0)
    if magic[:2] == b"\x1f\x8b":
        with gzip.GzipFile(fileobj=raw) as unzipped:
            yield io.BufferedReader(unzipped, 2**20)
    elif magic == b"PK\x03\x04":
        with open_zip(raw) as archive, open_zip_member(archive, _largest(archive)) as member:
            yield member
    else:
        yield raw


def _largest(archive: zipfile.ZipFile) -> zipfile.ZipInfo:
    """Return the largest file of an archive: in glove.6B.zip, the vectors of the highest dimension."""
    members = [member for member in archive.infolist() if not member.is_dir()]
    if not members:
        raise zipfile.BadZipFile("the archive is empty")
    return max(members, key=lambda member: member.file_size)
