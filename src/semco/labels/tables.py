"""Read rows of numbers from a file: .npy, or text with commas, semicolons, tabs or spaces between the columns.

Text may have a header line and a first column of names. CUB-200's ``class_attribute_labels_continuous.txt`` has
neither; its names are in ``classes.txt`` in the same folder or its parent.

Shapes: R rows, a columns.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from semco.data.npy import read_npy
from semco.errors import UserError
from semco.files import exists, open_regular, read_text

CUB_FILE = "class_attribute_labels_continuous.txt"


@dataclass(frozen=True)
class NamedRows:
    """Rows of numbers, with a name for each row if the file has names."""

    path: Path
    values: NDArray[np.float64]  # (R, a), finite
    names: tuple[str, ...] | None  # R


def read_rows(path: Path) -> NamedRows:
    """Read the rows of a file; rows of different lengths and numbers that are not finite are a `UserError`."""
    if not exists(path):
        raise UserError(f"{path} is not a file; give a .npy, .csv or .txt file with one row per class.")
    rows = _from_npy(path) if path.suffix == ".npy" else _from_text(path)
    bad = np.argwhere(~np.isfinite(rows.values))
    if bad.size:
        raise UserError(
            f"{path}: row {bad[0][0] + 1}, column {bad[0][1] + 1} is not a finite number; correct the file."
        )
    return rows


def _from_npy(path: Path) -> NamedRows:
    with open_regular(path) as stream:
        try:
            values = read_npy(stream, path.stat().st_size)
        except ValueError as error:
            raise UserError(
                f"{path} is not a NumPy array of numbers: {error}; save a matrix with one row per class."
            ) from None
    if values.ndim != 2 or 0 in values.shape or values.dtype.kind not in "fiub":
        raise UserError(
            f"{path} contains {values.dtype} of shape {values.shape}, not a matrix of numbers with one row per class."
        )
    return NamedRows(path, values.astype(np.float64), None)


def _from_text(path: Path) -> NamedRows:
    lines = _split_lines(path)
    if not lines:
        raise UserError(f"{path} is empty; give one row per class.")
    if len(lines) > 1 and _is_header(lines):
        lines = lines[1:]
    named = not _is_number(lines[0][1][0])
    values = [_numbers(path, number, cells[named:]) for number, cells in lines]
    width = len(values[0])
    for (number, _), row in zip(lines, values, strict=True):
        if len(row) != width or not width:
            raise UserError(
                f"{path}, line {number}: {len(row)} numbers, but the first row has {width}; give all rows the same"
                " length."
            )
    names = tuple(cells[0].strip() for _, cells in lines) if named else _cub_names(path, len(lines))
    _check_unique(path, names or ())
    return NamedRows(path, np.asarray(values, dtype=np.float64), names)


def _split_lines(path: Path) -> list[tuple[int, list[str]]]:
    """Return the line number and the cells of each line that is not blank."""
    text = read_text(path, encoding="utf-8-sig")
    lines = [(i, line) for i, line in enumerate(text.splitlines(), 1) if line.strip()]
    delimiter = next((mark for mark in ",;\t" if lines and mark in lines[0][1]), None)
    if delimiter is None:
        return [(i, line.split()) for i, line in lines]
    cells = csv.reader((line for _, line in lines), delimiter=delimiter, skipinitialspace=True)
    try:
        return [(i, row) for (i, _), row in zip(lines, cells, strict=False)]
    except csv.Error as error:
        raise UserError(f"{path} cannot be read as a table ({error}); correct the file.") from None


def _is_header(lines: Sequence[tuple[int, list[str]]]) -> bool:
    """Return whether the first line has no numbers but the second has some."""
    first, second = lines[0][1], lines[1][1]
    return not any(map(_is_number, first[1:] or first)) and any(map(_is_number, second))


def _numbers(path: Path, line: int, cells: Sequence[str]) -> list[float]:
    for cell in cells:
        if not _is_number(cell):
            raise UserError(f"{path}, line {line}: {cell[:40]!r} is not a number; correct the line.")
    return [float(cell) for cell in cells]


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _cub_names(path: Path, rows: int) -> tuple[str, ...] | None:
    """Return CUB-200's class names (lines "1 001.Black_footed_Albatross"), or None if the file is not CUB-200's."""
    lists = [folder / "classes.txt" for folder in (path.parent, path.parent.parent)]
    found = next((file for file in lists if file.is_file()), None)
    if path.name != CUB_FILE or found is None:
        return None
    names = tuple(line.split()[-1] for line in read_text(found).splitlines() if line.strip())
    if len(names) != rows:
        raise UserError(f"{path} has {rows} rows, but {found} lists {len(names)} classes; the numbers must be equal.")
    return names


def _check_unique(path: Path, names: Sequence[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise UserError(f"{path} has two rows for {name!r}; remove one.")
        seen.add(name)
