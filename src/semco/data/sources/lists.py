"""List files: one image per line, with or without the number or name of its class, relative to one folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from semco.errors import UserError, brief
from semco.files import read_text

# Bytes of a list that are read: about ten million lines.
MOST_BYTES = 1 << 30


def lines_of(file: Path) -> Iterator[tuple[int, str]]:
    """Yield the number and the text of each line that is not blank."""
    for number, line in enumerate(read_text(file, MOST_BYTES, "utf-8-sig").splitlines(), 1):
        if line.strip():
            yield number, line.strip()


def numbered(file: Path) -> dict[str, str]:
    """Return the lines "1 001.Black_footed_Albatross/a.jpg" of a list as a table from the first word to the rest."""
    table: dict[str, str] = {}
    for number, line in lines_of(file):
        key, _, rest = line.partition(" ")
        if not rest.strip():
            raise UserError(f"{file}, line {number}: {brief(line)} does not have two columns; restore the file.")
        table[key] = rest.strip()
    return table


def labelled_paths(file: Path) -> Iterator[tuple[str, str]]:
    """Yield path and class number of the lines "real/airplane/real_002_000001.jpg 1" of a list."""
    for number, line in lines_of(file):
        path, _, label = line.rpartition(" ")
        if not path.strip() or not label.isdecimal():
            raise UserError(f"{file}, line {number}: {brief(line)} is not a path and a class number; correct the line.")
        yield path.strip(), label
