"""The photos that `semco predict` is given: files, folders, lists, CSV files and standard input.

Photos are found while they are predicted, so that a million of them need no more memory than a thousand.
"""

from __future__ import annotations

import csv
import io
import os
import warnings
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TextIO

from semco.data.decode import IMAGE_SUFFIXES
from semco.data.folder import HIDDEN
from semco.data.listing import FILES, Entry
from semco.data.sources.rows import Rows
from semco.data.sources.shards import add_shard
from semco.errors import SemcoWarning, UserError
from semco.files import cannot_read, exists, no_such, open_regular

STANDARD_INPUT = "-"
LIST = "@"  # before the name of a list
PATH_COLUMNS = ("path", "file", "filename", "image")


def find_photos(arguments: Sequence[str | Path], standard_input: TextIO | None = None) -> Iterator[Entry]:
    """Yield the photos that the arguments name, in order.

    An argument is an image file, a folder, a .tar file, "@" and the name of a list (one path per line, or a CSV file
    with a column ``path``), or "-": paths from standard input. A file that is given twice, by itself or in a folder, is
    predicted once.
    """
    before: list[Path] = []
    for argument in map(str, arguments):
        for entry in _photos_of(argument, standard_input):
            if not _is_below(Path(entry.name), before):
                yield entry
        if argument != STANDARD_INPUT:
            before.append(Path(argument))


def check_photos(arguments: Sequence[str | Path]) -> None:
    """Refuse names of photos, folders and lists that do not exist; the names in a list are looked for later."""
    for argument in map(str, arguments):
        is_list = argument.startswith(LIST) and not exists(Path(argument))
        path = Path(argument.removeprefix(LIST) if is_list else argument)
        if argument != STANDARD_INPUT and not exists(path):
            raise no_such("list" if is_list else "image, folder or list", path)


def _is_below(path: Path, others: Sequence[Path]) -> bool:
    return any(path == other or other in path.parents for other in others)


def _photos_of(argument: str, standard_input: TextIO | None) -> Iterator[Entry]:
    if argument == STANDARD_INPUT:
        yield from _as_files(line.rstrip("\r\n") for line in standard_input or ())
        return
    path = Path(argument)
    if not exists(path) and argument.startswith(LIST):
        yield from _in_list(Path(argument.removeprefix(LIST)))
        return
    check_photos([argument])
    if path.is_dir():
        yield from _not_empty(walk_images(path), path)
    elif path.suffix.lower() == ".tar":
        yield from _in_shard(path)
    else:
        if path.suffix.lower() in (".txt", ".lst", ".csv"):
            warnings.warn(f"{path} is no photo; {LIST}{path} would be a list of photos.", SemcoWarning, stacklevel=2)
        yield Entry(argument, FILES)


def _in_list(path: Path) -> Iterator[Entry]:
    """Yield the photos that a list names."""
    check_photos([f"{LIST}{path}"])
    is_table = path.suffix.lower() == ".csv"
    yield from _as_files(_column(path) if is_table else _lines(path), path.parent)


def _in_shard(path: Path) -> Iterator[Entry]:
    """Yield the images in a .tar file; one that is damaged is read up to the damage, with a warning."""
    rows = Rows()
    add_shard(rows, path, "train", {})
    for note in rows.notes:
        warnings.warn(f"{note}.", SemcoWarning, stacklevel=2)
    yield from _not_empty(iter(rows.train), path)


def _as_files(lines: Iterable[str], base: Path | None = None) -> Iterator[Entry]:
    """Yield the files that lines name; those of a list are relative to its folder."""
    for line in lines:
        if line.strip():
            yield Entry(line if base is None else str(base / line), FILES)


def walk_images(folder: Path) -> Iterator[Entry]:
    """Yield the image files below a folder, sorted within each folder; hidden files and folders are ignored."""
    try:
        with os.scandir(folder) as found:
            inside = sorted((each.name, each.is_dir()) for each in found if not each.name.startswith(HIDDEN))
    except OSError as error:
        raise cannot_read(folder, error) from None
    for name, is_folder in inside:
        if is_folder:
            yield from walk_images(folder / name)
        elif os.path.splitext(name)[1].lower() in IMAGE_SUFFIXES:  # noqa: PTH122, many times faster than a Path
            yield Entry(str(folder / name), FILES)


def _not_empty(entries: Iterator[Entry], folder: Path) -> Iterator[Entry]:
    is_empty = True
    for entry in entries:
        is_empty = False
        yield entry
    if is_empty:
        raise UserError(f"{folder} holds no image files ({', '.join(sorted(IMAGE_SUFFIXES))}).")


def _lines(path: Path) -> Iterator[str]:
    with io.TextIOWrapper(open_regular(path), "utf-8-sig", "surrogateescape") as stream:
        for line in stream:
            yield line.rstrip("\r\n")


def _column(path: Path) -> Iterator[str]:
    """Yield the paths in a CSV file."""
    with io.TextIOWrapper(open_regular(path), "utf-8-sig", "surrogateescape", newline="") as stream:
        reader = csv.DictReader(stream)
        try:
            names = reader.fieldnames or []
            column = next((name for name in PATH_COLUMNS if name in names), None)
            if column is None:
                raise UserError(
                    f"{path} has no column {' or '.join(PATH_COLUMNS)}; its columns are {', '.join(names)}."
                )
            for row in reader:
                yield row[column] or ""
        except csv.Error as error:
            raise UserError(f"{path} is not a CSV file ({error}, line {reader.line_num}).") from None
