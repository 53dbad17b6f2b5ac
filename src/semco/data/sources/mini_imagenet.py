"""Mini-ImageNet (Vinyals et al. 2016): 100 classes of ImageNet with 600 images each.

The few-shot splits divide the classes (64, 16 and 20). Semi-supervised learning needs all classes in training and test:
like Label Propagation (Iscen et al. 2019) and the paper, 500 images of each class are for training and 100 for testing.
The authors do not publish which; here they are the last sixth of a class, in the order of the file names. Folders
train/ and test/ that both have every class are used as they are.
"""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

from semco.data.folder import class_folders_of, image_files, subfolders
from semco.data.listing import FILES, Entry, Listing
from semco.data.names import simplify_name, wordnet_names
from semco.data.sources.rows import Rows, path_inside
from semco.errors import UserError, brief
from semco.files import exists, read_text

PARTS = ("train", "val", "test")
FOLDERS = ("mini-imagenet", "mini_imagenet", "miniimagenet", "miniImageNet")  # what its folder may be called
TEST_SHARE = 6  # one of so many images of a class is a test image


def folder_in(root: Path) -> Path:
    """Return the folder of Mini-ImageNet: one in ``root`` that is called so, else ``root`` itself."""
    return next((root / name for name in FOLDERS if exists(root / name) and (root / name).is_dir()), root)


def list_mini_imagenet(root: Path, classes: Sequence[str] | None = None) -> Listing:
    """List Mini-ImageNet from class folders, from folders train/, val/ and test/, or from the lists of these names."""
    root = folder_in(root)
    if not exists(root) or not root.is_dir():
        raise UserError(f"there is no folder {root}: set data.root to the folder of Mini-ImageNet.")
    lists = [root / f"{part}.csv" for part in PARTS if exists(root / f"{part}.csv")]
    folders = {part: root / part for part in PARTS if exists(root / part) and (root / part).is_dir()}
    if lists:
        return _divided(_from_lists(root, lists), root, classes)
    by_part = {part: _from_folders(folder) for part, folder in folders.items()}
    if not by_part:
        images = root / "images"
        return _divided(_from_folders(images if exists(images) and images.is_dir() else root), root, classes)
    if set(by_part.get("train", {})) == set(by_part.get("test", {})):
        return _as_divided(by_part, root, classes)
    merged: dict[str, list[str]] = defaultdict(list)
    for files in by_part.values():
        for name, paths in files.items():
            merged[name] += paths
    return _divided(merged, root, classes)


def _from_folders(folder: Path) -> dict[str, list[str]]:
    """Return the images of class folders by WordNet id, so that the classes have one order however they are called."""
    ids = {simplify_name(name): wordnet_id for wordnet_id, name in wordnet_names().items()}
    names = class_folders_of(folder)
    return {ids.get(simplify_name(name), name): image_files(folder / name)[0] for name in names}


def _from_lists(root: Path, lists: Sequence[Path]) -> dict[str, list[str]]:
    """Read the lists of Ravi and Larochelle: a header, then "n0153282900000005.jpg,n01532829" on each line."""
    folder = root / "images" if (root / "images").is_dir() else root
    nested = {path.name for path in subfolders(folder)}
    found: dict[str, list[str]] = defaultdict(list)
    for file in lists:
        for number, row in enumerate(csv.reader(read_text(file, encoding="utf-8-sig").splitlines()), 1):
            if len(row) != 2:
                raise UserError(f"{file}, line {number}: {brief(row)} is not a file name and a class; correct it.")
            if number > 1:
                name = f"{row[1]}/{row[0]}" if row[1] in nested else row[0]
                found[row[1]].append(path_inside(folder, name))
    return found


def _divided(found: Mapping[str, Sequence[str]], root: Path, classes: Sequence[str] | None) -> Listing:
    rows = Rows()
    for name in sorted(found):
        paths = sorted(found[name])
        tests = len(paths) // TEST_SHARE
        for position, path in enumerate(paths):
            rows.add(Entry(path, FILES), name, "test" if position >= len(paths) - tests else "train")
    rows.notes.append("the last sixth of each class, in the order of the file names, is for testing (500 and 100)")
    return rows.listing(root, classes)


def _as_divided(
    by_part: Mapping[str, Mapping[str, Sequence[str]]], root: Path, classes: Sequence[str] | None
) -> Listing:
    rows = Rows()
    for part, role in (("train", "train"), ("val", "validation"), ("test", "test")):
        for name, paths in by_part.get(part, {}).items():
            for path in paths:
                rows.add(Entry(path, FILES), name, role)  # type: ignore[arg-type]
    return rows.listing(root, classes)
