"""Read word2vec binary files: a line ``count dim``, then each word, a space and ``dim`` little-endian float32.

The original tool ends each vector with a newline, the published GoogleNews file does not; both forms are read.

Shapes: m words of a block, d embedding size.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

from semco.download import Report, no_report
from semco.errors import UserError
from semco.labels.build.readers.stream import BLOCK, Progress, open_bytes
from semco.labels.build.readers.vectors import LARGEST_DIM, VectorCollector, VectorSet

Block = tuple[list[bytes], NDArray[np.float32]]
_LONGEST_WORD = 4096


def read_word2vec(path: Path, limit: int | None = None, report: Report = no_report) -> VectorSet:
    """Read the first ``limit`` terms of a word2vec binary file (plain, .gz, .zip)."""
    collector = VectorCollector(limit)
    with open_bytes(path, "reading word2vec", report) as (stream, progress):
        count, dim = _header(stream, Path(path))
        for words, rows in _blocks(stream, progress, Path(path), count, dim):
            _check_finite(words, rows, Path(path), collector.lines)
            collector.add(words, rows)
            if collector.is_full:
                break
    return collector.result(dim)


def _header(stream: IO[bytes], path: Path) -> tuple[int, int]:
    """Read the number of words and the dimension from the first line."""
    line = stream.readline(_LONGEST_WORD)
    fields = line.split()
    if line.startswith(b"/a/"):
        raise UserError(f"{path} is a ConceptNet graph, not a vector file; pass it as the graph (conceptnet).")
    if not line.endswith(b"\n") or len(fields) != 2 or not all(f.isdigit() and len(f) < 12 for f in fields):
        raise UserError(
            f"{path} line 1: a word2vec binary file begins with its count and dimension; check that this is one."
        )
    count, dim = int(fields[0]), int(fields[1])
    if not count or not 0 < dim <= LARGEST_DIM:
        raise UserError(f"{path} line 1: {count} words of dimension {dim} cannot be a vector file; download it again.")
    return count, dim


def _blocks(stream: IO[bytes], progress: Progress, path: Path, count: int, dim: int) -> Iterator[Block]:
    """Yield words and rows (m, d) until ``count`` words have been read."""
    buffer, done = b"", 0
    while done < count:
        chunk = stream.read(max(BLOCK, 8 * dim))
        buffer += chunk
        words, rows, used = _parse(buffer, dim, count - done)
        done += len(words)
        if not words and (not chunk or len(buffer) > _LONGEST_WORD + 4 * dim):
            raise UserError(f"{path} word {done + 1} of {count}: the file is truncated or not word2vec binary.")
        buffer = buffer[used:]
        progress.update()
        if words:
            yield words, rows


def _parse(buffer: bytes, dim: int, limit: int) -> tuple[list[bytes], NDArray[np.float32], int]:
    """Return up to ``limit`` complete words of ``buffer`` with their rows (m, d), and the number of bytes used."""
    words: list[bytes] = []
    vectors: list[NDArray[np.float32]] = []
    position = 0
    while len(words) < limit:
        space = buffer.find(b" ", position, position + _LONGEST_WORD)
        end = space + 1 + 4 * dim
        if space < 0 or end > len(buffer):
            break
        words.append(buffer[position:space].lstrip(b"\n"))
        vectors.append(np.frombuffer(buffer, dtype="<f4", count=dim, offset=space + 1))
        position = end
    rows = np.array(vectors, dtype=np.float32).reshape(-1, dim)
    return words, rows, position


def _check_finite(words: list[bytes], rows: NDArray[np.float32], path: Path, before: int) -> None:
    if not np.isfinite(rows).all():
        bad = int(np.flatnonzero(~np.isfinite(rows).all(axis=1))[0])
        word = words[bad].decode(errors="replace")
        raise UserError(f"{path} word {before + bad + 1}: the vector of {word!r} contains NaN or infinity.")
