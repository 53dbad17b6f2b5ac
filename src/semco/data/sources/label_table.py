"""Files of labels: CSV, the ``metadata.csv`` and ``metadata.jsonl`` of Hugging Face, and JSON of other tools."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from semco.data.folder import image_files, subfolders
from semco.data.listing import FILES, Entry
from semco.data.sources.label_formats import Finder, is_address, local_path, read_labels
from semco.data.sources.lists import MOST_BYTES, lines_of
from semco.data.sources.rows import ROLES, Role, Rows, path_inside
from semco.errors import UserError, brief
from semco.files import exists, read_text

PATH_COLUMNS = ("path", "file_name", "filename", "file", "image", "image_path", "img")
LABEL_COLUMNS = ("label", "class", "category", "class_name", "label_name", "labels", "choice")
ROLE_COLUMNS = ("split", "subset", "part")
METADATA = ("metadata.csv", "metadata.jsonl")

Row = tuple[str, str | None, str]  # path, label or None, split or ""


def add_labels_file(rows: Rows, root: Path, file: Path) -> None:
    """Add the images that a table lists with their labels, and every other image below ``root`` without one.

    They are in the order of the files, so that results computed from the images stay valid when labels are added.
    """
    if not exists(file):
        raise UserError(f"there is no file of labels {file}.")
    listed: dict[str, tuple[str | None, Role]] = {}
    images, rows.ignored = image_files(root)
    for number, (path, label, role) in enumerate(_read_any(file, root, images), 1):
        name = _find(root, file.parent, path)
        if name in listed:
            raise UserError(f"{file} names {brief(path)} twice (the second time in row {number}): keep one row.")
        listed[name] = label, ROLES.get(role.lower(), "train")
    if not listed:
        raise UserError(f"{file} has no row with a path and a label: add some.")
    for name in images:
        rows.add(Entry(name, FILES), *listed.pop(name, (None, "train")))
    for name, (label, role) in listed.items():  # files that are not there, or not by an ending of an image
        rows.add(Entry(name, FILES), label, role)


def _read_any(file: Path, root: Path, images: Sequence[str]) -> Iterator[Row]:
    """Yield the rows of a table or of a JSON file; other tools name images in their own ways."""
    finder = Finder(root, images)
    if file.suffix.lower() == ".json":
        for path, label in read_labels(file):
            yield finder.find(path), label, ""
        return
    for path, label, role in read_table(file):
        yield finder.find(local_path(path)) if is_address(path) else path, label, role


def _find(root: Path, beside: Path, path: str) -> str:
    """Return the file of a row: relative to ``root``, to the folder of the table, or absolute, but inside ``root``."""
    if os.path.isabs(path) or ".." in Path(path).parts:  # noqa: PTH117 (a name, not a path)
        whole = os.path.normpath(os.path.join(beside, path))  # noqa: PTH118
        if not Path(whole).is_relative_to(root):
            raise UserError(f"{brief(path)} is not in {root}: list images of that folder only.")
        return whole
    inside = path_inside(root, path)
    other = path_inside(beside, path)
    is_other = not os.path.exists(inside) and Path(other).is_relative_to(root) and os.path.exists(other)  # noqa: PTH110
    return os.path.normpath(other if is_other else inside)


def metadata_folders(root: Path) -> list[Path]:
    """Return the folders with a table of Hugging Face: ``root``, or those of its folders train/, val/ and test/."""
    if _metadata(root) is not None:
        return [root]
    return [f for f in subfolders(root) if f.name.lower() in ROLES and _metadata(f) is not None]


def add_metadata(rows: Rows, folder: Path, role: str = "") -> None:
    """Add the images of a folder with the labels of its table; those it does not list are unlabelled."""
    file = _metadata(folder)
    assert file is not None
    listed: set[str] = set()
    for path, label, own_role in read_table(file):
        name = os.path.normpath(path_inside(folder, path))
        listed.add(name)
        part = ROLES.get((own_role or role or path.partition("/")[0] if "/" in path else own_role or role).lower())
        rows.add(Entry(name, FILES), label, part or "train")
    images, others = image_files(folder)
    rows.ignored += others
    if ROLES.get(role.lower(), "train") == "train":
        rows.train.add_files(image for image in images if image not in listed)


def _metadata(folder: Path) -> Path | None:
    return next((folder / name for name in METADATA if exists(folder / name)), None)


def read_table(file: Path) -> Iterator[Row]:
    """Yield path, label and split of each row of a .csv, .tsv or .jsonl file; an empty label is no label."""
    if file.suffix.lower() == ".jsonl":
        yield from _read_json_lines(file)
        return
    text = read_text(file, MOST_BYTES, "utf-8-sig")
    delimiter = "\t" if file.suffix.lower() == ".tsv" else _delimiter(text)
    try:
        table = [row for row in csv.reader(text.splitlines(), delimiter=delimiter) if any(cell.strip() for cell in row)]
    except csv.Error as error:
        raise UserError(f"{file} cannot be read as a table ({error}); correct the file.") from None
    columns = _columns(file, table[0]) if table else None
    for number, row in enumerate(table[1:] if columns else table, 2 if columns else 1):
        path, label, role = columns or (0, 1, None)
        if len(row) <= max(path, label or 0, role or 0):
            raise UserError(f"{file}, row {number}: {brief(row)} has too few columns; correct the row.")
        yield row[path].strip(), _label(row[label] if label is not None else ""), row[role].strip() if role else ""


def _delimiter(text: str) -> str:
    first = text.partition("\n")[0]
    return max(",;\t", key=first.count)


def _label(value: str) -> str | None:
    return value.strip() or None


def _columns(file: Path, header: Sequence[str]) -> tuple[int, int | None, int | None] | None:
    """Return the columns of path, label and split; None if the first row is not a header."""
    names = [cell.strip().lower() for cell in header]
    path, label, role = (_first(names, known) for known in (PATH_COLUMNS, LABEL_COLUMNS, ROLE_COLUMNS))
    if path is None and label is None:
        if len(header) < 2:
            raise UserError(f"{file} has one column: give each row a path and a label.")
        return None
    if path is None:
        raise UserError(f"{file} has no column of paths ({', '.join(PATH_COLUMNS[:3])}): name one so.")
    if label is None and file.name not in METADATA:
        raise UserError(f"{file} has no column of labels ({', '.join(LABEL_COLUMNS[:3])}): name one so.")
    return path, label, role


def _first(names: Sequence[str], known: Sequence[str]) -> int | None:
    return next((names.index(name) for name in known if name in names), None)


def _read_json_lines(file: Path) -> Iterator[Row]:
    for number, line in lines_of(file):
        try:
            values = json.loads(line)
        except (ValueError, RecursionError):
            values = None
        path = _value(values, PATH_COLUMNS)
        if path is None:
            raise UserError(f"{file}, line {number}: {brief(line)} is not a JSON object with a file_name; correct it.")
        yield path, _value(values, LABEL_COLUMNS), _value(values, ROLE_COLUMNS) or ""


def _value(values: Any, names: Sequence[str]) -> str | None:
    found = next((values[n] for n in names if n in values), None) if isinstance(values, dict) else None
    return str(found) if isinstance(found, str | int) and str(found).strip() else None
