"""ConceptNet assertions: five tab-separated columns (uri, relation, start, end, JSON with the weight).

Blocks of lines are parsed and filtered by Arrow, so that of 34 million assertions only those that are kept
ever become Python objects.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyarrow import csv

from semco.errors import UserError
from semco.labels.readers.stream import Report, decode, line_blocks, open_bytes, silent
from semco.labels.terms import normalise

_COLUMNS = ["uri", "relation", "start", "end", "info"]
_ENGLISH = b"/c/en/"
_WEIGHT = re.compile(rb'"weight": ([0-9.]+)\}$')


@dataclass(frozen=True)
class Edges:
    """Weighted edges between terms; the two ends of one edge differ."""

    terms: list[str]  # n
    start: NDArray[np.int32]  # (e,) index into terms
    end: NDArray[np.int32]  # (e,)
    relation: NDArray[np.int8]  # (e,) index into relations
    weight: NDArray[np.float32]  # (e,) > 0
    relations: tuple[str, ...]
    lines: int = 0  # assertions read


@dataclass
class _Numbering:
    """Terms in the order they are met."""

    numbers: dict[str, int] = field(default_factory=dict)
    _cache: dict[bytes, int] = field(default_factory=dict)

    def of(self, uri: bytes) -> int:
        """Number of the term of ``/c/en/term/n/sense``; -1 where nothing is left of it."""
        number = self._cache.get(uri)
        if number is None:
            term = normalise(decode(uri[len(_ENGLISH) :].split(b"/", 1)[0])[0])
            number = self.numbers.setdefault(term, len(self.numbers)) if term else -1
            self._cache[uri] = number
        return number


def read_conceptnet(path: Path, relations: Mapping[str, float], report: Report = silent) -> Edges:
    """English edges of the named relations, their weights times the relation's own (plain, .gz, .zip)."""
    path, kinds, numbering = Path(path), tuple(relations), _Numbering()
    factors = np.asarray([relations[kind] for kind in kinds], dtype=np.float32)
    parts: list[tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int8], NDArray[np.float32]]] = []
    lines = 0
    with open_bytes(path, "reading ConceptNet", report) as (stream, progress):
        for block in line_blocks(stream, progress):
            table = _table(block, path, lines)
            kept = _kept(table, kinds)
            if kept.num_rows:
                start, end = (_numbers(kept[name], numbering) for name in ("start", "end"))
                relation = pc.index_in(kept["relation"], _uris(kinds)).to_numpy().astype(np.int8)
                weight = _weights(kept, _Place(path, lines, block)) * factors[relation]
                real = (start != end) & (start >= 0) & (end >= 0) & (weight > 0)
                parts.append((start[real], end[real], relation[real], weight[real]))
            lines += table.num_rows
    if not sum(len(part[0]) for part in parts):
        raise UserError(f"{path} holds no English assertions of {', '.join(kinds)} in its {lines} lines.")
    starts, ends, relation, weights = (np.concatenate(column) for column in zip(*parts, strict=True))
    return Edges(list(numbering.numbers), starts, ends, relation, weights, kinds, lines)


def _table(block: bytes, path: Path, before: int) -> pa.Table:
    """The block's five columns; a line with more or fewer is named."""
    try:
        return csv.read_csv(
            pa.BufferReader(block),
            read_options=csv.ReadOptions(column_names=_COLUMNS, block_size=2**20),
            parse_options=csv.ParseOptions(delimiter="\t", quote_char=False, ignore_empty_lines=False),
            convert_options=csv.ConvertOptions(
                column_types=dict.fromkeys(_COLUMNS, pa.binary()), strings_can_be_null=False
            ),
        )
    except pa.ArrowInvalid as error:
        for i, line in enumerate(block.splitlines()):
            if line.count(b"\t") != 4:
                raise _not_five(path, before + i + 1, line) from None
        raise UserError(f"{path} after line {before}: {' '.join(str(error).split())}.") from None


def _not_five(path: Path, line: int, text: bytes) -> UserError:
    found = text.count(b"\t") + 1
    hint = "" if line > 1 else "; is this an assertions file, or a file of vectors?"
    return UserError(f"{path} line {line}: a ConceptNet assertion has 5 tab-separated columns, not {found}{hint}.")


def _uris(kinds: tuple[str, ...]) -> pa.Array:
    return pa.array([f"/r/{kind}".encode() for kind in kinds], type=pa.binary())


def _kept(table: pa.Table, kinds: tuple[str, ...]) -> pa.Table:
    mask = pc.is_in(table["relation"], _uris(kinds))
    for name in ("start", "end"):
        mask = pc.and_(mask, pc.starts_with(table[name], _ENGLISH))
    return table.filter(mask)


def _numbers(uris: pa.ChunkedArray, numbering: _Numbering) -> NDArray[np.int32]:
    coded = uris.combine_chunks().dictionary_encode()
    numbers = np.asarray([numbering.of(uri) for uri in coded.dictionary.to_pylist()], dtype=np.int32)
    codes: NDArray[np.int32] = coded.indices.to_numpy()
    return numbers[codes]


@dataclass(frozen=True)
class _Place:
    """The block that is being read, to find the line of what is wrong in it."""

    path: Path
    before: int
    block: bytes

    def error(self, info: bytes, what: str) -> UserError:
        line = self.before + self.block[: self.block.find(info)].count(b"\n") + 1
        return UserError(f"{self.path} line {line}: {what}.")


def _weights(table: pa.Table, place: _Place) -> NDArray[np.float32]:
    """The weight in each edge's JSON, 1 where there is none."""
    return np.fromiter((_weight(info, place) for info in _infos(table)), np.float32, table.num_rows)


def _infos(table: pa.Table) -> Iterator[bytes]:
    for chunk in table["info"].chunks:
        yield from chunk.to_pylist()


def _weight(info: bytes, place: _Place) -> float:
    at_the_end = _WEIGHT.search(info)  # where the official files have it; JSON takes ten times longer
    try:
        weight = float(at_the_end[1] if at_the_end else json.loads(info).get("weight", 1.0))
    except (ValueError, TypeError, AttributeError, RecursionError):
        raise place.error(info, f"the fifth column {info[:80]!r} is not the JSON of an assertion") from None
    if not 0 <= weight < 1e6:
        raise place.error(info, f"an assertion has the weight {weight}; weights are positive numbers")
    return weight
