"""Read GloVe text files: one word and its numbers per line, separated by spaces; a header (``count dim``) is skipped.

Arrow's CSV reader parses a block of lines at once. Blocks that it rejects (a few words of GloVe 840B contain spaces;
damaged lines) are parsed line by line, which also finds the line number for an error message.

Shapes: m lines of a block, d embedding size.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import csv

from semco.download import Report, no_report
from semco.errors import UserError
from semco.labels.build.readers.stream import line_blocks, open_bytes
from semco.labels.build.readers.vectors import LARGEST_DIM, VectorCollector, VectorSet

Rows = NDArray[np.float32]


@dataclass(frozen=True)
class _BlockPosition:
    """The file and the number of lines before a block, for error messages."""

    path: Path
    lines_before: int

    def error(self, i: int, message: str) -> UserError:
        return UserError(f"{self.path} line {self.lines_before + i + 1}: {message}.")


def read_glove(path: Path, limit: int | None = None, report: Report = no_report) -> VectorSet:
    """Read the first ``limit`` terms of a GloVe text file (plain, .gz, .zip)."""
    collector, dim = VectorCollector(limit), 0
    with open_bytes(path, "reading GloVe", report) as (stream, progress):
        for position, block in _with_positions(Path(path), line_blocks(stream, progress)):
            if not dim:
                dim, block, position = _skip_header(block, position)
            if block.strip():
                collector.add(*_parse(block, dim, position))
            if collector.is_full:
                break
    if not collector.lines:
        raise UserError(f"{path} contains no vectors; give a GloVe text file.")
    return collector.result(dim)


def _with_positions(path: Path, blocks: Iterator[bytes]) -> Iterator[tuple[_BlockPosition, bytes]]:
    line = 0
    for block in blocks:
        yield _BlockPosition(path, line), block
        line += block.count(b"\n")


def _skip_header(block: bytes, position: _BlockPosition) -> tuple[int, bytes, _BlockPosition]:
    """Return the dimension, read from the first lines of the file, and the block without a header line."""
    first, _, rest = block.partition(b"\n")
    fields = first.split()
    if len(fields) == 2 and all(f.isdigit() for f in fields) and rest:
        return _header_dim(fields[1], rest, position), rest, _BlockPosition(position.path, position.lines_before + 1)
    if first.startswith(b"/a/") and first.count(b"\t") == 4:
        raise UserError(f"{position.path} is a ConceptNet graph, not a vector file; pass it as the graph (conceptnet).")
    dim = len(fields) - 1
    if dim > LARGEST_DIM:
        raise position.error(0, f"a vector of {dim} numbers is too long, at most {LARGEST_DIM:,} are read")
    if dim < 2 or _floats(fields[-1:]) is None:
        raise position.error(
            0, "a GloVe line is a word and at least two numbers; check that this is a text file of vectors"
        )
    return dim, block, position


def _header_dim(field: bytes, rest: bytes, position: _BlockPosition) -> int:
    """Return the dimension that a header line announces, after comparing it with the first vector in ``rest``."""
    dim = int(field) if len(field) < 12 else 0
    found = len(rest.lstrip().partition(b"\n")[0].split()) - 1
    if not 0 < dim <= LARGEST_DIM or 0 <= found < dim:
        announced = field[:20].decode(errors="replace")
        raise position.error(
            0,
            f"the header announces {announced} dimensions, but the first vector has {max(found, 0)}; download it again",
        )
    return dim


def _parse(block: bytes, dim: int, position: _BlockPosition) -> tuple[list[bytes], Rows]:
    """Return the words and rows (m, d) of complete lines."""
    if b"\r" in block:
        block = block.replace(b"\r\n", b"\n")
    fast = _parse_fast(block, dim)
    words, rows = fast if fast is not None else _parse_slowly(block, dim, position)
    if not np.isfinite(rows).all():
        bad = int(np.flatnonzero(~np.isfinite(rows).all(axis=1))[0])
        number = [i for i, line in enumerate(block.split(b"\n")) if line.strip()][bad]
        raise position.error(number, f"the vector of {words[bad].decode(errors='replace')!r} contains NaN or infinity")
    return words, rows


def _parse_fast(block: bytes, dim: int) -> tuple[list[bytes], Rows] | None:
    """Return the block parsed by Arrow, or None if a line is not exactly a word and ``dim`` numbers."""
    names = [str(i) for i in range(dim + 1)]
    types = {"0": pa.binary(), **dict.fromkeys(names[1:], pa.float32())}
    try:
        table = csv.read_csv(
            pa.BufferReader(block),
            read_options=csv.ReadOptions(column_names=names, block_size=2**20),
            parse_options=csv.ParseOptions(delimiter=" ", quote_char=False),
            convert_options=csv.ConvertOptions(column_types=types, null_values=[], strings_can_be_null=False),
        )
    except pa.ArrowInvalid:
        return None
    rows = np.empty((table.num_rows, dim), dtype=np.float32)
    start = 0
    for batch in table.to_batches():
        columns = [batch.column(i).to_numpy() for i in range(1, dim + 1)]
        rows[start : start + batch.num_rows] = np.stack(columns).T
        start += batch.num_rows
    return table.column(0).to_pylist(), rows


def _parse_slowly(block: bytes, dim: int, position: _BlockPosition) -> tuple[list[bytes], Rows]:
    """Return the block parsed line by line, where a word may contain spaces."""
    words, rows = [], []
    for i, line in enumerate(block.split(b"\n")):
        fields = line.rstrip(b" ").rsplit(b" ", dim)
        if not line.strip():
            continue
        numbers = _floats(fields[1:])
        if len(fields) != dim + 1 or numbers is None:
            found = len(line.split()) - 1
            raise position.error(i, f"expected a word and {dim} numbers, found {found} fields after the word")
        words.append(fields[0])
        rows.append(numbers)
    return words, np.asarray(rows, dtype=np.float32).reshape(-1, dim)


def _floats(fields: list[bytes]) -> Rows | None:
    try:
        return np.asarray([float(field) for field in fields], dtype=np.float32)
    except ValueError:
        return None
