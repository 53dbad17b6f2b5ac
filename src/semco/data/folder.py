"""A folder of class folders.

    photos/cat/*.jpg   photos/dog/**/*.png   photos/unlabeled/*   photos/test/cat/*   photos/test/dog/*

The class folders may also lie together in ``train/``. Images are decoded once, by several threads, and kept as
uint8: in memory, or, above two GiB, in a memory-mapped file in the folder for temporary files.

Shapes: N images, S pixels a side.
"""

from __future__ import annotations

import math
import os
import shutil
import tempfile
import weakref
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from semco.config import DataConfig
from semco.data.datasets import UNLABELLED, Dataset, ProgressCallback, choose_classes, find_class
from semco.data.decode import DECODE_ERRORS, IMAGE_SUFFIXES, decode, default_image_size
from semco.errors import UserError

UNLABELLED_FOLDERS = ("unlabeled", "unlabelled")
TEST_FOLDERS = ("test",)
VALIDATION_FOLDERS = ("val", "valid", "validation")
HIDDEN = (".", "__")  # how the names of hidden files and of what tools leave behind begin
MEMORY_LIMIT = 2 << 30
# Images handed to the threads at a time, so that progress is reported and a stop is quick.
BLOCK = 256


@dataclass(frozen=True)
class Part:
    """Image files and their classes, in a fixed order."""

    paths: list[Path] = field(default_factory=list)
    labels: list[int] = field(default_factory=list)

    def add(self, paths: Sequence[Path], label: int) -> None:
        self.paths.extend(paths)
        self.labels.extend([label] * len(paths))


@dataclass(frozen=True)
class Listing:
    """What a folder holds."""

    class_names: tuple[str, ...]
    train: Part
    test: Part
    ignored: Counter[str]  # files that are not images of a class, by ending


@dataclass(frozen=True)
class Decoded:
    """The images of a part that could be read, and the names of the others."""

    images: Tensor | None  # (N, 3, S, S) uint8
    labels: Tensor | None  # (N,) int64
    paths: tuple[str, ...] | None
    skipped: tuple[str, ...]


def read_folder(root: Path, config: DataConfig, report: ProgressCallback | None = None) -> Dataset:
    """List the folder, decode every image, leave out (and name) those that cannot be read."""
    listing = list_folder(root, config.classes)
    size = config.image_size or default_image_size(listing.train.paths)
    train = _decode_part(listing.train, size, config.strict, report, "reading training images")
    test = _decode_part(listing.test, size, config.strict, report, "reading test images")
    if train.images is None or train.labels is None:
        raise UserError(f"none of the {len(train.skipped)} images in {root} can be read.")
    for number, name in enumerate(listing.class_names):
        if not (train.labels == number).any():
            raise UserError(f"no image of class {name!r} in {root} can be read: add some that can.")
    return Dataset(
        name=str(root),
        train_images=train.images,
        train_labels=train.labels,
        class_names=listing.class_names,
        test_images=test.images,
        test_labels=test.labels,
        train_paths=train.paths,
        test_paths=test.paths,
        skipped=(*train.skipped, *test.skipped),
        ignored=listing.ignored,
    )


def list_folder(root: Path, classes: Sequence[str] | None = None) -> Listing:
    """Find classes and images; ``classes`` keeps only those, in that order."""
    if not root.is_dir():
        raise UserError(f"there is no folder {root}.")
    base, names = _class_root(root), class_folders(root)
    chosen = tuple(names if classes is None else (names[i] for i in choose_classes(names, classes)))
    train, test = Part(), Part()
    ignored: Counter[str] = Counter()
    for folder in {root, base}:
        ignored += _loose_files(folder)
    for label, name in enumerate(chosen):
        ignored += _add_class(train, base / name, label)
    for folder in _special_folders({root, base}, UNLABELLED_FOLDERS):
        images, others = find_images(folder)
        train.add(images, UNLABELLED)
        ignored += others
    for folder in _special_folders({root, base}, TEST_FOLDERS):
        ignored += _add_test(test, folder, names, chosen)
    return Listing(chosen, train, test, ignored)


def class_folders(root: Path) -> list[str]:
    """The names of the classes."""
    base = _class_root(root)
    names = [f.name for f in _subfolders(base) if not _is_special(f.name)]
    for folder in _special_folders({base}, VALIDATION_FOLDERS):
        if {f.name for f in _subfolders(folder)} & set(names):
            raise _not_used(folder)
    if len(names) < 2:
        found = f"one class folder ({names[0]})" if names else "no class folder"
        raise UserError(f"{base} holds {found}: give each class, at least two, its own folder.")
    return names


def _class_root(root: Path) -> Path:
    """``root``, or its ``train`` folder where that one holds the class folders."""
    siblings = {f.name.lower(): f for f in _subfolders(root)}
    train = siblings.pop("train", None)
    others = [n for n in siblings if not _is_special(n) and n not in VALIDATION_FOLDERS]
    if train is None or others or not _subfolders(train):
        return root  # "train" may well be the name of a class
    for name in VALIDATION_FOLDERS:
        if name in siblings:
            raise _not_used(siblings[name])
    return train


def _not_used(folder: Path) -> UserError:
    return UserError(
        f"{folder} is not used: validation images are held out of the training images; "
        "rename the folder to test/ to measure on it, or move it elsewhere."
    )


def _is_special(name: str) -> bool:
    return name.lower() in (*UNLABELLED_FOLDERS, *TEST_FOLDERS)


def _special_folders(roots: set[Path], names: Sequence[str]) -> list[Path]:
    return sorted(f for root in roots for f in _subfolders(root) if f.name.lower() in names)


def _add_class(part: Part, folder: Path, label: int) -> Counter[str]:
    """Add a class folder's images; says which other files it holds."""
    images, others = find_images(folder)
    if not images:
        kinds = ", ".join(sorted(IMAGE_SUFFIXES))
        raise UserError(f"class folder {folder} holds no image ({kinds}): add some, or move it elsewhere.")
    part.add(images, label)
    return others


def _add_test(part: Part, folder: Path, names: Sequence[str], chosen: Sequence[str]) -> Counter[str]:
    """Add test/<class>/; classes that were left out of the choice are left out here too."""
    ignored = _loose_files(folder)
    for one in _subfolders(folder):
        name = names[find_class(names, one.name, f"class in {folder}:")]
        if name in chosen:
            ignored += _add_class(part, one, chosen.index(name))
    return ignored


def _subfolders(folder: Path) -> list[Path]:
    return sorted(f for f in folder.iterdir() if f.is_dir() and not f.name.startswith(HIDDEN))


def _loose_files(folder: Path) -> Counter[str]:
    return _endings(f for f in folder.iterdir() if f.is_file() and not f.name.startswith(HIDDEN))


def _endings(files: Iterable[Path]) -> Counter[str]:
    return Counter(f.suffix.lower() for f in files)


def find_images(folder: Path) -> tuple[list[Path], Counter[str]]:
    """The images below a folder, sorted, and its other files by ending; hidden ones do not count."""
    files: list[Path] = []
    for where, folders, names in os.walk(folder):
        folders[:] = [f for f in folders if not f.startswith(HIDDEN)]
        files += [Path(where, name) for name in names if not name.startswith(HIDDEN)]
    images = sorted(f for f in files if f.suffix.lower() in IMAGE_SUFFIXES)
    return images, _endings(f for f in files if f.suffix.lower() not in IMAGE_SUFFIXES)


def _decode_part(part: Part, size: int, strict: bool, report: ProgressCallback | None, doing: str) -> Decoded:
    if not part.paths:
        return Decoded(None, None, None, ())
    rows = _space((len(part.paths), 3, size, size))
    errors: list[str | None] = []
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as threads:
        for start in range(0, len(part.paths), BLOCK):
            block = part.paths[start : start + BLOCK]
            errors += threads.map(_decode_into, block, rows[start : start + BLOCK])
            if strict:
                _stop_at_first(part.paths, errors)
            if report is not None:
                report(doing, len(errors), len(part.paths))
    kept = [i for i, error in enumerate(errors) if error is None]
    skipped = tuple(str(part.paths[i]) for i, error in enumerate(errors) if error is not None)
    if not kept:
        return Decoded(None, None, None, skipped)
    _close_gaps(rows, kept)
    labels = torch.tensor(part.labels)[kept]
    paths = tuple(str(part.paths[i]) for i in kept)
    return Decoded(torch.from_numpy(rows[: len(kept)]), labels, paths, skipped)


def _decode_into(path: Path, row: NDArray[np.uint8]) -> str | None:
    """Decode into (3, S, S), or say what is wrong with the file."""
    try:
        row[...] = decode(path, row.shape[-1]).transpose(2, 0, 1)
    except DECODE_ERRORS as error:
        return str(error)
    return None


def _stop_at_first(paths: Sequence[Path], errors: Sequence[str | None]) -> None:
    for path, error in zip(paths, errors, strict=False):
        if error is not None:
            raise UserError(f"image {path} cannot be read ({error}): repair it, remove it, or turn strict off.")


def _space(shape: tuple[int, ...]) -> NDArray[np.uint8]:
    """Room for the images; a large one is a file, which goes when nobody uses it any more."""
    needed = math.prod(shape)
    if needed <= MEMORY_LIMIT:
        return np.empty(shape, np.uint8)
    disk = tempfile.gettempdir()
    free = shutil.disk_usage(disk).free
    if needed > free:
        raise UserError(
            f"{shape[0]:,} images of {shape[2]} x {shape[3]} pixels take {needed / 1e9:,.0f} GB, but {disk} has "
            f"{free / 1e9:,.0f} GB free: choose a smaller data.image_size, or a larger disk by TMPDIR."
        )
    folder = Path(tempfile.mkdtemp(prefix="semco-"))
    rows: NDArray[np.uint8] = np.lib.format.open_memmap(folder / "images.npy", mode="w+", dtype=np.uint8, shape=shape)
    weakref.finalize(rows, shutil.rmtree, folder, ignore_errors=True)
    return rows


def _close_gaps(rows: NDArray[np.uint8], kept: Sequence[int]) -> None:
    """Move the rows that were read to the front, in place: a copy could be too large."""
    for to, row in enumerate(kept):
        if to != row:
            rows[to] = rows[row]
