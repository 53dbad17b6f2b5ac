"""The labels of a project as the table that `semco train` reads (``data.labels_from``)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from semco.data.sources.label_file import csv_text
from semco.errors import UserError
from semco.files import write_text

Rows = Sequence[tuple[str, str]]  # path of a photo, name of its class
COLUMNS = ("path", "label", "split")


def label_rows(labels: Mapping[str, int], names: Mapping[int, str]) -> Rows:
    """Return path and class name of every photo whose class exists, sorted by path."""
    return sorted((photo, names[class_id]) for photo, class_id in labels.items() if class_id in names)


def fits_csv(path: str) -> bool:
    """Return whether a row of a CSV file gives a path back as it is: in UTF-8, on one line, without outer spaces."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return path == path.strip() and len(path.splitlines()) == 1


def write_label_file(stem: Path, rows: Rows, test: Mapping[str, str | None], root: Path) -> Path:
    """Write the labels of photos below ``root``, with their whole paths, and return the file: .csv, or else .jsonl.

    ``test`` has the photos that are for testing only, with the names of their classes; one without a class is not used.
    """
    if not rows:
        raise UserError("there are no labels yet; label some photos first.")
    whole: list[tuple[str, str, str]] = [(str(root / path), name, "train") for path, name in rows]
    whole += [(str(root / path), name or "", "test") for path, name in test.items()]
    if all(fits_csv(path) for path, _, _ in whole):
        file = stem.with_name(f"{stem.name}.csv")
        write_text(file, csv_text(whole, COLUMNS))
        return file
    file = stem.with_name(f"{stem.name}.jsonl")
    write_text(file, "".join(json.dumps(dict(zip(COLUMNS, row, strict=True))) + "\n" for row in whole))
    return file
