"""GloVe text: a word and its numbers on a line, separated by spaces; a header (``count dim``) is skipped.

A block of lines is parsed at once by Arrow's CSV reader. A block it refuses (words that hold spaces, as a few
of GloVe 840B do; damaged lines) is read line by line, which also finds the line to name in an error.

Shapes: m lines of a block, d embedding size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import csv

from semco.errors import UserError
from semco.labels.readers.stream import Report, line_blocks, open_bytes, silent
from semco.labels.readers.vectors import Gatherer, VectorSet
from semco.labels.terms import normalise

Rows = NDArray[np.float32]


@dataclass(frozen=True)
class _Where:
    """The file and the number of the line before the block, for errors."""

    path: Path
    line: int

    def error(self, i: int, what: str) -> UserError:
        return UserError(f"{self.path} line {self.line + i + 1}: {what}.")


def read_glove(
    path: Path,
    limit: int | None = None,
    report: Report = silent,
    to_term: Callable[[str], str | None] = normalise,
    stage: str = "reading GloVe",
) -> VectorSet:
    """The first ``limit`` terms of a GloVe text file (plain, .gz, .zip)."""
    gathered, dim = Gatherer(limit, to_term), 0
    with open_bytes(path, stage, report) as (stream, progress):
        for where, block in _numbered(Path(path), line_blocks(stream, progress)):
            if not dim:
                dim, block, where = _begin(block, where)
            if block.strip():
                gathered.add(*_parse(block, dim, where))
            if gathered.full:
                break
    if not gathered.lines:
        raise UserError(f"{path} holds no vectors.")
    return gathered.result(dim)


def _numbered(path: Path, blocks: Iterator[bytes]) -> Iterator[tuple[_Where, bytes]]:
    line = 0
    for block in blocks:
        yield _Where(path, line), block
        line += block.count(b"\n")


def _begin(block: bytes, where: _Where) -> tuple[int, bytes, _Where]:
    """The dimension (from the first line of vectors), and the block without a header line."""
    first, _, rest = block.partition(b"\n")
    fields = first.split()
    if len(fields) == 2 and all(f.isdigit() for f in fields) and rest:
        return int(fields[1]), rest, _Where(where.path, where.line + 1)
    if first.startswith(b"/a/") and first.count(b"\t") == 4:
        raise UserError(f"{where.path} is a ConceptNet graph, not a vector file; give it with --conceptnet.")
    dim = len(fields) - 1
    if dim < 2 or _floats(fields[-1:]) is None:
        raise where.error(0, "a GloVe line is a word and at least two numbers; is this a text file of vectors?")
    return dim, block, where


def _parse(block: bytes, dim: int, where: _Where) -> tuple[list[bytes], Rows]:
    """Words and rows (m, d) of whole lines."""
    if b"\r" in block:
        block = block.replace(b"\r\n", b"\n")
    fast = _parse_fast(block, dim)
    words, rows = fast if fast is not None else _parse_slowly(block, dim, where)
    if not np.isfinite(rows).all():
        bad = int(np.flatnonzero(~np.isfinite(rows).all(axis=1))[0])
        number = [i for i, line in enumerate(block.split(b"\n")) if line.strip()][bad]
        raise where.error(number, f"the vector of {words[bad].decode(errors='replace')!r} holds NaN or infinity")
    return words, rows


def _parse_fast(block: bytes, dim: int) -> tuple[list[bytes], Rows] | None:
    """The block by Arrow, or None where a line is not exactly a word and ``dim`` numbers."""
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


def _parse_slowly(block: bytes, dim: int, where: _Where) -> tuple[list[bytes], Rows]:
    words, rows = [], []
    for i, line in enumerate(block.split(b"\n")):
        fields = line.rstrip(b" ").rsplit(b" ", dim)
        if not line.strip():
            continue
        numbers = _floats(fields[1:])
        if len(fields) != dim + 1 or numbers is None:
            found = len(line.split()) - 1
            raise where.error(i, f"expected a word and {dim} numbers, found {found} fields after the word")
        words.append(fields[0])
        rows.append(numbers)
    return words, np.asarray(rows, dtype=np.float32).reshape(-1, dim)


def _floats(fields: list[bytes]) -> Rows | None:
    try:
        return np.asarray([float(field) for field in fields], dtype=np.float32)
    except ValueError:
        return None
