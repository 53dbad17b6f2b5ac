"""Data sets of Hugging Face on disk: Arrow or Parquet files with a column of images, read with pyarrow alone.

An image is a struct of ``bytes`` and ``path``, as `datasets` writes it, or plain bytes. Labels are numbers of a
ClassLabel, whose names are in the metadata, or texts.
"""

from __future__ import annotations

import io
import json
import re
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from semco.data.folder import walk_files
from semco.data.listing import Entry
from semco.data.sources.rows import ROLES, Role, Rows
from semco.errors import UserError
from semco.files import exists, read_json

SUFFIXES = (".arrow", ".parquet")
IMAGE_COLUMNS = ("image", "img", "picture", "photo")
LABEL_COLUMNS = ("label", "labels", "fine_label", "class", "category")


@dataclass
class Table:
    """The store of the images in one file; an entry's place is its row. The last block that was read is kept."""

    path: Path
    column: str
    is_struct: bool
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _opened: Any = None
    _starts: Any = None  # the first row of each block
    _block: tuple[int, Any] | None = None

    def open(self, entry: Entry) -> BinaryIO:
        with self._lock:
            try:
                content = self._bytes(entry.place)
            except Exception as error:  # pyarrow has many kinds of errors for a damaged file
                raise UserError(f"{entry.name} cannot be read ({error}).") from None
        if content is None:
            raise UserError(f"{entry.name} has no bytes: its image is stored elsewhere.")
        return io.BytesIO(content)

    def file(self, entry: Entry) -> Path:  # noqa: ARG002 (every store has it)
        return self.path

    def __getstate__(self) -> dict[str, Any]:
        return {"path": self.path, "column": self.column, "is_struct": self.is_struct}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]

    def _bytes(self, row: int) -> bytes | None:
        if self._opened is None:
            self._opened = _open(self.path)
            self._starts = np.cumsum([0, *_block_sizes(self._opened)])
        number = int(np.searchsorted(self._starts, row, side="right")) - 1
        if self._block is None or self._block[0] != number:
            self._block = (number, _read_block(self._opened, number, self.column))
        value = self._block[1][row - int(self._starts[number])].as_py()
        content = value.get("bytes") if self.is_struct and value is not None else value
        return content if isinstance(content, bytes) else None


def find_tables(root: Path) -> list[tuple[Path, Role]]:
    """Return the Arrow and Parquet files of a data set with their parts; cached ones are left out."""
    found: list[tuple[Path, Role]] = []
    for name in walk_files(str(root)):
        path = Path(name)
        if path.suffix.lower() in SUFFIXES and not path.name.startswith("cache-"):
            inner = path.relative_to(root).parts
            words = [*inner[:-1], re.split(r"[-_.\d]", path.name)[0]]
            roles = [ROLES[word.lower()] for word in words if word and word.lower() in ROLES]
            found.append((path, roles[-1] if roles else "train"))
    return found


def add_table(rows: Rows, path: Path, role: Role, names: Sequence[str] | None) -> None:
    """Add the rows of a file; a file that cannot be read is left out, and a note says so."""
    try:
        opened = _open(path)
        schema = _schema(opened)
        column, is_struct = _image_column(path, schema)
        labels = _labels(opened, schema)
        count = sum(_block_sizes(opened))
    except UserError:
        raise
    except Exception as error:  # pyarrow has many kinds of errors for a damaged file
        rows.notes.append(f"{path} cannot be read ({error}) and is left out")
        return
    names = _class_names(schema) or names
    table = Table(path, column, is_struct)
    for row in range(count):
        rows.add(Entry(f"{path}/{row}", table, row), _name(None if labels is None else labels[row], names), role)


def _name(label: object, names: Sequence[str] | None) -> str | None:
    if label is None or label == -1 or label == "":
        return None
    if isinstance(label, int) and names is not None and 0 <= label < len(names):
        return names[label]
    return str(label)


def _open(path: Path) -> Any:
    import pyarrow as pa
    from pyarrow import parquet

    if path.suffix.lower() == ".parquet":
        return parquet.ParquetFile(path, memory_map=True)
    source = pa.memory_map(str(path), "r")
    try:
        reader = pa.ipc.open_stream(source)
        return list(reader), reader.schema
    except pa.ArrowInvalid:
        file = pa.ipc.open_file(source)
        return [file.get_batch(i) for i in range(file.num_record_batches)], file.schema


def _schema(opened: Any) -> Any:
    return opened[1] if isinstance(opened, tuple) else opened.schema_arrow


def _block_sizes(opened: Any) -> list[int]:
    if isinstance(opened, tuple):
        return [batch.num_rows for batch in opened[0]]
    return [opened.metadata.row_group(i).num_rows for i in range(opened.metadata.num_row_groups)]


def _read_block(opened: Any, number: int, column: str) -> Any:
    """Return a column of a block of rows. It is validated, because pyarrow would crash on damaged offsets."""
    if isinstance(opened, tuple):
        block = opened[0][number].column(column)
    else:
        block = opened.read_row_group(number, columns=[column]).column(column)
    block.validate(full=True)
    return block


def _image_column(path: Path, schema: Any) -> tuple[str, bool]:
    """Return the column of images, and whether it is a struct."""
    import pyarrow as pa

    for name in (*(n for n in IMAGE_COLUMNS if n in schema.names), *schema.names):
        kind = schema.field(name).type
        if pa.types.is_struct(kind) and kind.get_field_index("bytes") >= 0:
            return name, True
        if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
            return name, False
    raise UserError(f"{path} has no column of images ({', '.join(schema.names[:10])}): it must hold their bytes.")


def _labels(opened: Any, schema: Any) -> list[Any] | None:
    name = next((n for n in LABEL_COLUMNS if n in schema.names), None)
    if name is None:
        return None
    return [v for i in range(len(_block_sizes(opened))) for v in _read_block(opened, i, name).to_pylist()]


def _class_names(schema: Any) -> list[str] | None:
    """Return the class names in the metadata of a file, None if it has none."""
    try:
        info = json.loads((schema.metadata or {}).get(b"huggingface", b"{}"))
    except ValueError:
        return None
    return names_of_features(info.get("info", {}).get("features") if isinstance(info, Mapping) else None)


def names_of_features(features: object) -> list[str] | None:
    """Return the names of the ClassLabel among the features of a data set."""
    for name in LABEL_COLUMNS:
        feature = features.get(name) if isinstance(features, Mapping) else None
        names = feature.get("names") if isinstance(feature, Mapping) else None
        if isinstance(names, list) and all(isinstance(each, str) for each in names):
            return names
    return None


def names_beside(root: Path) -> list[str] | None:
    """Return the class names in ``dataset_info.json`` in a folder or in one of its folders."""
    for file in (root / "dataset_info.json", *sorted(root.glob("*/dataset_info.json"))):
        if exists(file):
            values = read_json(file)
            return names_of_features(values.get("features") if isinstance(values, Mapping) else None)
    return None
