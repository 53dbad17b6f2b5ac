"""Tables of predictions: CSV, JSON lines or Parquet, written row by row."""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, Protocol, TextIO, get_args

import pyarrow as pa
import pyarrow.parquet as pq

from semco.data.listing import Entry
from semco.data.names import NONE_OF_THESE
from semco.errors import UserError
from semco.files import atomic_path, exists, readable_name
from semco.predict.engine import About
from semco.predict.predictions import Prediction, as_row, columns

Format = Literal["csv", "jsonl", "parquet"]
FORMATS: tuple[Format, ...] = get_args(Format)
SURE, NONE = "sure", "none_of_these"
ROWS_OF_GROUP = 10_000  # of a Parquet file


class Table(Protocol):
    """A table that is being written."""

    def write(self, predictions: Sequence[Prediction]) -> None: ...


class Rows:
    """Predictions as rows; with ``least``, a column ``sure`` says whether the confidence is at least that.

    With ``says_none``, a column says for which photos the answer is "none of these".
    """

    def __init__(self, about: About, top: int = 2, least: float | None = None, *, says_none: bool = False) -> None:
        self._about, self._top, self._least, self._says_none = about, top, least, says_none
        self.columns = (*columns(about, top), *([] if least is None else [SURE]), *([NONE] if says_none else []))

    def of(self, prediction: Prediction) -> dict[str, Any]:
        row: dict[str, Any] = as_row(prediction, self._about, self._top)
        if self._least is not None:
            row[SURE] = None if prediction.confidence is None else prediction.confidence >= self._least
        if self._says_none:
            row[NONE] = None if prediction.label is None else prediction.label == NONE_OF_THESE
        return row


class CsvTable:
    def __init__(self, stream: TextIO, rows: Rows) -> None:
        self._rows, self._stream = rows, stream
        self._writer = csv.DictWriter(stream, rows.columns, lineterminator="\n")
        self._writer.writeheader()

    def write(self, predictions: Sequence[Prediction]) -> None:
        self._writer.writerows(map(self._rows.of, predictions))
        self._stream.flush()


class JsonLines:
    def __init__(self, stream: TextIO, rows: Rows) -> None:
        self._stream, self._rows = stream, rows

    def write(self, predictions: Sequence[Prediction]) -> None:
        self._stream.writelines(json.dumps(self._rows.of(each)) + "\n" for each in predictions)
        self._stream.flush()


class ParquetTable:
    """Writes rows in large groups: each group is described at the end of the file, and in memory until then."""

    def __init__(self, writer: pq.ParquetWriter, rows: Rows) -> None:
        self._writer, self._rows = writer, rows
        self._waiting: list[dict[str, Any]] = []

    def write(self, predictions: Sequence[Prediction]) -> None:
        self._waiting += [self._rows.of(each) | {"path": readable_name(each.path)} for each in predictions]
        if len(self._waiting) >= ROWS_OF_GROUP:
            self.flush()

    def flush(self) -> None:
        if self._waiting:
            self._writer.write_table(pa.Table.from_pylist(self._waiting, self._writer.schema))
        self._waiting = []


def _schema(names: Sequence[str]) -> pa.Schema:
    return pa.schema([(name, _type_of(name)) for name in names])


def _type_of(column: str) -> pa.DataType:
    if column in (SURE, NONE):
        return pa.bool_()
    return pa.float64() if column.endswith("confidence") else pa.string()


def choose_format(out: Path | None, name: str | None) -> Format:
    """Return the format of a name, or else of the ending of the file; standard output is CSV unless it is named."""
    chosen = name or (None if out is None else out.suffix.lower().removeprefix(".")) or "csv"
    for known in FORMATS:
        if chosen == known:
            if known == "parquet" and out is None:
                raise UserError("Parquet cannot be written to standard output; give a file, or the format jsonl.")
            return known
    raise UserError(f"predictions are written as {', '.join(FORMATS)}, not as {chosen!r}; name one of these formats.")


class ExistsError(UserError):
    """Something is already there that would be overwritten."""


def check_new(path: Path, force: bool) -> None:
    """Refuse to overwrite a file, or to write into a folder that holds something."""
    if force or not exists(path):
        return
    if path.is_dir() and not any(path.iterdir()):
        return
    raise ExistsError(f"{path} exists; choose another name, or force it to be overwritten.")


@contextmanager
def open_table(out: Path | None, format_name: Format, rows: Rows, standard_output: TextIO) -> Iterator[Table]:
    """Yield the table to write into a file, which appears when it is complete, or into standard output."""
    if out is None:
        yield _text_table(standard_output, format_name, rows)
        return
    with atomic_path(out) as temporary:
        if format_name == "parquet":
            with temporary.open("wb") as binary, pq.ParquetWriter(binary, _schema(rows.columns)) as writer:
                table = ParquetTable(writer, rows)
                yield table
                table.flush()
        else:
            # A file name may be invalid UTF-8; its bytes are written unchanged.
            with temporary.open("w", encoding="utf-8", errors="surrogateescape", newline="") as stream:
                yield _text_table(stream, format_name, rows)


def _text_table(stream: TextIO, format_name: Format, rows: Rows) -> Table:
    return CsvTable(stream, rows) if format_name == "csv" else JsonLines(stream, rows)


class Sorter:
    """Copies photos into ``sure/LABEL/`` and ``unsure/LABEL/`` of a folder, by their confidence, or links them."""

    def __init__(self, folder: Path, least: float, *, link: bool = False) -> None:
        self._folder, self._least, self._link = folder, least, link

    def add(self, entry: Entry, prediction: Prediction) -> None:
        """Copy or link a photo that could be read; one with a name that is taken gets a number."""
        if prediction.label is None:
            return
        is_sure = prediction.confidence is not None and prediction.confidence >= self._least
        kind = SURE if is_sure else "unsure"
        folder = self._folder / kind / _folder_name(prediction.label)
        folder.mkdir(parents=True, exist_ok=True)
        name = Path(entry.name).name
        target, number = folder / name, 1
        while target.exists():
            number += 1
            target = folder / f"{Path(name).stem}-{number}{Path(name).suffix}"
        if self._link:
            target.symlink_to(entry.file().absolute())
            return
        with atomic_path(target) as temporary, entry.open() as source, temporary.open("wb") as copy:
            shutil.copyfileobj(source, copy)


def _folder_name(label: str) -> str:
    """Return the name of a class as that of a folder inside another one."""
    name = label.replace("/", "_").replace("\\", "_").replace("\0", "_")
    return f"_{name}" if name.startswith(".") else name
