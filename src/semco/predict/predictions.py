"""The answer for one image, and the same as a row of a table.

Shapes: N images, K classes.
"""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, Protocol, TextIO, get_args

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from semco.data.listing import Entry
from semco.data.names import NONE_OF_THESE
from semco.errors import UserError
from semco.evaluation.thresholds import Threshold
from semco.files import atomic_path, readable_name
from semco.predict.engine import About, Scores

Cell = str | float | None


@dataclass(frozen=True)
class Prediction:
    """The most probable classes of one image, or the reason why it could not be read."""

    path: str
    label: str | None = None
    confidence: float | None = None
    runner_up: str | None = None
    runner_up_confidence: float | None = None
    group: str | None = None
    """The group of the label: ``shirt + coat``; the label itself if it is in no group."""
    top: tuple[tuple[str, float], ...] = ()
    """The most probable classes with their probabilities, as many as were asked for."""
    heads: Mapping[str, tuple[str, float]] = field(default_factory=dict)
    """The most probable class of each head with its probability."""
    familiarity: float | None = None
    """How similar the photo is to those of the classes, from -1 to 1; None if the model has no familiarity."""
    error: str | None = None
    """Why the image could not be read; None if it could."""


def predictions_of(names: Sequence[str], scores: Scores, about: About, top: int = 2) -> list[Prediction]:
    """Return the predictions of images with these names, given their scores; ``top`` classes of each."""
    shown = min(max(2, top), len(about.class_names))
    order = np.argsort(-scores.chosen, axis=1, kind="stable")[:, :shown].tolist()
    best = {head: each.argmax(axis=1).tolist() for head, each in scores.by_head.items()}
    return [
        _prediction(name, about, order[i], scores, i, {head: ids[i] for head, ids in best.items()}, top)
        for i, name in enumerate(names)
    ]


def _prediction(
    name: str, about: About, order: list[int], scores: Scores, row: int, best: Mapping[str, int], top: int
) -> Prediction:
    ranked = [(about.class_names[k], float(scores.chosen[row, k])) for k in order]
    (label, confidence), (runner_up, runner_up_confidence) = ranked[:2]
    return Prediction(
        path=name,
        label=label,
        confidence=confidence,
        runner_up=runner_up,
        runner_up_confidence=runner_up_confidence,
        group=about.groups[order[0]],
        top=tuple(ranked[:top]),
        heads={head: (about.class_names[k], float(scores.by_head[head][row, k])) for head, k in best.items()},
        familiarity=None if scores.familiarity is None else float(scores.familiarity[row]),
    )


def or_none_of_these(prediction: Prediction, threshold: Threshold | None) -> Prediction:
    """Return the answer "none of these" for a photo below the threshold; its most probable class is the runner-up."""
    known = prediction.familiarity
    if threshold is None or known is None or known >= threshold.least:
        return prediction
    return replace(
        prediction,
        label=NONE_OF_THESE,
        confidence=None,
        runner_up=prediction.label,
        runner_up_confidence=prediction.confidence,
        group=NONE_OF_THESE,
    )


def columns(about: About, top: int = 2) -> tuple[str, ...]:
    """Return the names of the columns of a table of predictions with ``top`` classes per image."""
    more = (f"top_{i}" for i in range(3, 1 + min(top, len(about.class_names))))
    heads = about.heads if len(about.heads) > 1 else ()
    pairs = ("label", "runner_up", *more)
    return ("path", *_with_confidence(pairs), "group", *_with_confidence(heads), "error")


def _with_confidence(names: Sequence[str]) -> Iterator[str]:
    for name in names:
        yield name
        yield "confidence" if name == "label" else f"{name}_confidence"


def as_row(prediction: Prediction, about: About, top: int = 2) -> dict[str, Cell]:
    """Return a prediction by column."""
    row: dict[str, Cell] = dict.fromkeys(columns(about, top))
    row |= {"path": prediction.path, "error": prediction.error, "group": prediction.group}
    row |= {"label": prediction.label, "confidence": prediction.confidence}
    row |= {"runner_up": prediction.runner_up, "runner_up_confidence": prediction.runner_up_confidence}
    for place, (name, confidence) in enumerate(prediction.top[2:], start=3):
        row |= {f"top_{place}": name, f"top_{place}_confidence": confidence}
    if len(about.heads) > 1:
        for head, (name, confidence) in prediction.heads.items():
            row |= {head: name, f"{head}_confidence": confidence}
    return row


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
