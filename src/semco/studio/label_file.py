"""The labels of a project as the table that `semco train` reads (``data.labels_from``)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from semco.data.sources.label_formats import csv_text
from semco.errors import UserError
from semco.files import write_text

Rows = Sequence[tuple[str, str]]  # path of a photo, name of its class


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


def write_label_file(stem: Path, rows: Rows, root: Path) -> Path:
    """Write the labels of photos below ``root``, with their whole paths, and return the file: .csv, or else .jsonl."""
    if not rows:
        raise UserError("there are no labels yet; label some photos first.")
    whole = [(str(root / path), name) for path, name in rows]
    if all(fits_csv(path) for path, _ in whole):
        file = stem.with_name(f"{stem.name}.csv")
        write_text(file, csv_text(whole))
        return file
    file = stem.with_name(f"{stem.name}.jsonl")
    write_text(file, "".join(json.dumps({"path": path, "label": name}) + "\n" for path, name in whole))
    return file
