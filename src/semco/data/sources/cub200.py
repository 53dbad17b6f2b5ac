"""CUB-200-2011 (Wah et al. 2011) from its official folder, with its own split, labels and class attributes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from semco.data.listing import FILES, Entry, Listing
from semco.data.sources.rows import Rows, numbered, path_inside
from semco.errors import UserError
from semco.files import exists

LISTS = ("images.txt", "image_class_labels.txt", "train_test_split.txt")
FOLDER = "CUB_200_2011"
ATTRIBUTES = "class_attribute_labels_continuous.txt"


def is_official(folder: Path) -> bool:
    """Return whether a folder has the official lists."""
    return all(exists(folder / name) for name in LISTS)


def find_official(root: Path) -> Path:
    """Return the official folder: ``CUB_200_2011`` in ``root``, or ``root`` itself."""
    for folder in (root / FOLDER, root):
        if is_official(folder):
            return folder
    raise UserError(
        f"{root} contains no {FOLDER}/ with {', '.join(LISTS)}: unpack the official archive there, or set data.root "
        "to another folder."
    )


def list_official(folder: Path, classes: Sequence[str] | None = None) -> Listing:
    """List the images of the official folder, with the official split."""
    paths, class_ids, is_train = (numbered(folder / name) for name in LISTS)
    names = numbered(folder / "classes.txt") if exists(folder / "classes.txt") else {}
    rows = Rows([without_number(name) for name in names.values()])
    for image, path in paths.items():
        if image not in class_ids or image not in is_train:
            raise UserError(f"image {image} of {folder / LISTS[0]} is missing in {LISTS[1]} or {LISTS[2]}; restore it.")
        name = names.get(class_ids[image]) or path.partition("/")[0]
        entry = Entry(path_inside(folder / "images", path), FILES)
        rows.add(entry, without_number(name), "train" if is_train[image] == "1" else "test")
    rows.notes.append(f"the split of {LISTS[2]} is used")
    return replace(rows.listing(folder, classes), attributes=find_attributes(folder))


def find_attributes(folder: Path) -> Path | None:
    """Return the table of class attributes in a folder or in its folder attributes/, None if there is none."""
    places = (folder / "attributes" / ATTRIBUTES, folder / ATTRIBUTES)
    return next((place for place in places if exists(place) and place.is_file()), None)


def without_number(name: str) -> str:
    """Return "Black_footed_Albatross" for "001.Black_footed_Albatross"."""
    return re.sub(r"^\d{3}\.(?=.)", "", name)
