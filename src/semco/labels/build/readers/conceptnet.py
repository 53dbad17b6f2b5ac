"""Read ConceptNet assertions: five tab-separated columns (uri, relation, start, end, JSON with the weight).

Arrow parses and filters blocks of lines, so that only the assertions that are kept, about 3 of 34 million, become
Python objects.
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

from semco.download import Report, no_report
from semco.errors import UserError
from semco.labels.build.readers.stream import decode, line_blocks, open_bytes
from semco.labels.matching.spelling import normalise

_COLUMNS = ["uri", "relation", "start", "end", "info"]
_ENGLISH = b"/c/en/"
_WEIGHT = re.compile(rb'"weight": ([0-9.]+)\}$')


@dataclass(frozen=True)
class Edges:
    """Weighted edges between different terms."""

    terms: list[str]  # n
    start: NDArray[np.int32]  # (e,) index into terms
    end: NDArray[np.int32]  # (e,)
    relation: NDArray[np.int8]  # (e,) index into relations
    weight: NDArray[np.float32]  # (e,) > 0
    relations: tuple[str, ...]
    lines: int = 0  # assertions read


@dataclass
class _TermIndex:
    """Numbers terms in the order of their first appearance."""

    numbers: dict[str, int] = field(default_factory=dict)
    _cache: dict[bytes, int] = field(default_factory=dict)

    def number(self, uri: bytes) -> int:
        """Return the number of the term in ``/c/en/term/n/sense``, or -1 if the term is empty when normalised."""
        number = self._cache.get(uri)
        if number is None:
            term = normalise(decode(uri[len(_ENGLISH) :].split(b"/", 1)[0])[0])
            number = self.numbers.setdefault(term, len(self.numbers)) if term else -1
            self._cache[uri] = number
        return number


def read_conceptnet(path: Path, relations: Mapping[str, float], report: Report = no_report) -> Edges:
    """Read the English edges of the named relations (plain, .gz, .zip).

    The weight of an edge is multiplied by the weight of its relation.
    """
    path, kinds, index = Path(path), tuple(relations), _TermIndex()
    factors = np.asarray([relations[kind] for kind in kinds], dtype=np.float32)
    parts: list[tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int8], NDArray[np.float32]]] = []
    lines = 0
    with open_bytes(path, "reading ConceptNet", report) as (stream, progress):
        for block in line_blocks(stream, progress):
            table = _table(block, path, lines)
            kept = _wanted_rows(table, kinds)
            if kept.num_rows:
                start, end = (_term_numbers(kept[name], index) for name in ("start", "end"))
                relation = pc.index_in(kept["relation"], _relation_uris(kinds)).to_numpy().astype(np.int8)
                weight = _weights(kept, _Block(path, lines, block)) * factors[relation]
                real = (start != end) & (start >= 0) & (end >= 0) & (weight > 0)
                parts.append((start[real], end[real], relation[real], weight[real]))
            lines += table.num_rows
    if not sum(len(part[0]) for part in parts):
        raise UserError(
            f"{path} contains no English assertions of {', '.join(kinds)} in its {lines} lines; check the relations and"
            " the file."
        )
    starts, ends, relation, weights = (np.concatenate(column) for column in zip(*parts, strict=True))
    return Edges(list(index.numbers), starts, ends, relation, weights, kinds, lines)


def _table(block: bytes, path: Path, before: int) -> pa.Table:
    """Return the block as a table of five columns; the error for another number of columns names the line."""
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
                raise _column_error(path, before + i + 1, line) from None
        raise UserError(f"{path} after line {before}: {' '.join(str(error).split())}.") from None


def _column_error(path: Path, line: int, text: bytes) -> UserError:
    found = text.count(b"\t") + 1
    hint = "" if line > 1 else "; check that this is an assertions file and not a file of vectors"
    return UserError(f"{path} line {line}: a ConceptNet assertion has 5 tab-separated columns, not {found}{hint}.")


def _relation_uris(kinds: tuple[str, ...]) -> pa.Array:
    return pa.array([f"/r/{kind}".encode() for kind in kinds], type=pa.binary())


def _wanted_rows(table: pa.Table, kinds: tuple[str, ...]) -> pa.Table:
    """Return the rows of these relations whose both ends are English."""
    mask = pc.is_in(table["relation"], _relation_uris(kinds))
    for name in ("start", "end"):
        mask = pc.and_(mask, pc.starts_with(table[name], _ENGLISH))
    return table.filter(mask)


def _term_numbers(uris: pa.ChunkedArray, index: _TermIndex) -> NDArray[np.int32]:
    """Return the number of each URI's term."""
    coded = uris.combine_chunks().dictionary_encode()
    numbers = np.asarray([index.number(uri) for uri in coded.dictionary.to_pylist()], dtype=np.int32)
    codes: NDArray[np.int32] = coded.indices.to_numpy()
    return numbers[codes]


@dataclass(frozen=True)
class _Block:
    """The block that is being read, to find the line number for an error message."""

    path: Path
    lines_before: int
    content: bytes

    def error(self, info: bytes, message: str) -> UserError:
        line = self.lines_before + self.content[: self.content.find(info)].count(b"\n") + 1
        return UserError(f"{self.path} line {line}: {message}.")


def _weights(table: pa.Table, block: _Block) -> NDArray[np.float32]:
    """Return the weight in the JSON of each edge, 1 if there is none."""
    return np.fromiter((_weight(info, block) for info in _infos(table)), np.float32, table.num_rows)


def _infos(table: pa.Table) -> Iterator[bytes]:
    for chunk in table["info"].chunks:
        yield from chunk.to_pylist()


def _weight(info: bytes, block: _Block) -> float:
    at_end = _WEIGHT.search(info)  # its place in the official files; parsing the JSON takes ten times longer
    try:
        weight = float(at_end[1] if at_end else json.loads(info).get("weight", 1.0))
    except (ValueError, TypeError, AttributeError, RecursionError):
        raise block.error(info, f"the fifth column {info[:80]!r} is not the JSON of an assertion") from None
    if not 0 <= weight < 1e6:
        raise block.error(info, f"an assertion has the weight {weight}; weights must be at least 0 and below 1,000,000")
    return weight
