"""A folder of class folders.

    photos/cat/*.jpg   photos/dog/**/*.png   photos/unlabeled/*   photos/test/cat/*   photos/test/dog/*

The class folders may also be inside a folder ``train/``. Images are decoded once, by several threads, and stored as
uint8: in memory or, above two GiB, in a memory-mapped file in the folder for temporary files.

Shapes: N images, S height and width.
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
from semco.data.decode import DECODE_ERRORS, IMAGE_SUFFIXES, decode, default_image_size, reason_of
from semco.errors import UserError
from semco.files import cannot_read

UNLABELLED_FOLDERS = ("unlabeled", "unlabelled")
TEST_FOLDERS = ("test",)
VALIDATION_FOLDERS = ("val", "valid", "validation")
HIDDEN = (".", "__")  # first characters of the names of hidden files and of files left by other programs
MEMORY_LIMIT = 2 << 30
# Images that the threads decode between two progress reports; an interruption waits for one block at most.
BLOCK = 256


@dataclass(frozen=True)
class Part:
    """Image files and their labels, in a fixed order."""

    paths: list[Path] = field(default_factory=list)
    labels: list[int] = field(default_factory=list)

    def add(self, paths: Sequence[Path], label: int) -> None:
        self.paths.extend(paths)
        self.labels.extend([label] * len(paths))


@dataclass(frozen=True)
class Listing:
    """The classes and image files found in a folder."""

    class_names: tuple[str, ...]
    train: Part
    test: Part
    ignored: Counter[str]  # number of files that are not images of a class, per suffix


@dataclass(frozen=True)
class Decoded:
    """The images of a part that could be read, and the paths of the others with the reasons."""

    images: Tensor | None  # (N, 3, S, S) uint8
    labels: Tensor | None  # (N,) int64
    paths: tuple[str, ...] | None
    skipped: tuple[str, ...]


def read_folder(root: Path, config: DataConfig, on_progress: ProgressCallback | None = None) -> Dataset:
    """Read a folder of class folders; images that cannot be read are skipped and listed in `Dataset.skipped`."""
    listing = list_folder(root, config.classes)
    size = config.image_size or default_image_size(listing.train.paths)
    train = _decode_part(listing.train, size, config.strict, on_progress, "reading training images")
    test = _decode_part(listing.test, size, config.strict, on_progress, "reading test images")
    if train.images is None or train.labels is None:
        raise UserError(f"none of the {len(train.skipped)} images in {root} can be read: check the files.")
    for number, name in enumerate(listing.class_names):
        if not (train.labels == number).any():
            raise UserError(f"no image of class {name!r} in {root} can be read: add images that can.")
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
    """Find the classes and images in a folder; ``classes`` selects some of the classes, in that order."""
    if not root.is_dir():
        raise UserError(f"there is no folder {root}.")
    base, names = _class_root(root), class_folders(root)
    chosen = tuple(names if classes is None else (names[i] for i in choose_classes(names, classes)))
    train, test = Part(), Part()
    ignored: Counter[str] = Counter()
    for folder in {root, base}:
        ignored += _count_files(folder)
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
    """Return the names of the class folders, sorted."""
    base = _class_root(root)
    names = [f.name for f in _subfolders(base) if not _is_special(f.name)]
    for folder in _special_folders({base}, VALIDATION_FOLDERS):
        if {f.name for f in _subfolders(folder)} & set(names):
            raise _unused_folder_error(folder)
    if len(names) < 2:
        found = f"one class folder ({names[0]})" if names else "no class folder"
        raise UserError(f"{base} contains {found}: create one folder per class, for at least two classes.")
    return names


def _class_root(root: Path) -> Path:
    """Return the folder that contains the class folders: ``root`` or its folder ``train``."""
    siblings = {f.name.lower(): f for f in _subfolders(root)}
    train = siblings.pop("train", None)
    others = [n for n in siblings if not _is_special(n) and n not in VALIDATION_FOLDERS]
    if train is None or others or not _subfolders(train):
        return root  # "train" can also be the name of a class
    for name in VALIDATION_FOLDERS:
        if name in siblings:
            raise _unused_folder_error(siblings[name])
    return train


def _unused_folder_error(folder: Path) -> UserError:
    return UserError(
        f"{folder} is not used, because validation images are taken from the training images: "
        "rename the folder to test/ to evaluate on it, or move it elsewhere."
    )


def _is_special(name: str) -> bool:
    return name.lower() in (*UNLABELLED_FOLDERS, *TEST_FOLDERS)


def _special_folders(roots: set[Path], names: Sequence[str]) -> list[Path]:
    return sorted(f for root in roots for f in _subfolders(root) if f.name.lower() in names)


def _add_class(part: Part, folder: Path, label: int) -> Counter[str]:
    """Add the images of a class folder to a part, and return the number of its other files per suffix."""
    images, others = find_images(folder)
    if not images:
        kinds = ", ".join(sorted(IMAGE_SUFFIXES))
        raise UserError(f"class folder {folder} contains no image ({kinds}): add some, or move it elsewhere.")
    part.add(images, label)
    return others


def _add_test(part: Part, folder: Path, names: Sequence[str], chosen: Sequence[str]) -> Counter[str]:
    """Add the images in test/<class>/ of the chosen classes, and return the number of other files per suffix."""
    ignored = _count_files(folder)
    for one in _subfolders(folder):
        name = names[find_class(names, one.name, f"class in {folder}:")]
        if name in chosen:
            ignored += _add_class(part, one, chosen.index(name))
    return ignored


def _subfolders(folder: Path) -> list[Path]:
    return sorted(f for f in _entries(folder) if f.is_dir())


def _count_files(folder: Path) -> Counter[str]:
    return _count_suffixes(f for f in _entries(folder) if f.is_file())


def _entries(folder: Path) -> list[Path]:
    """Return the files and folders in a folder that are not hidden."""
    try:
        return [f for f in folder.iterdir() if not f.name.startswith(HIDDEN)]
    except OSError as error:
        raise cannot_read(folder, error) from None


def _count_suffixes(files: Iterable[Path]) -> Counter[str]:
    return Counter(f.suffix.lower() for f in files)


def find_images(folder: Path) -> tuple[list[Path], Counter[str]]:
    """Return the images in a folder and its subfolders, sorted, and the number of other files per suffix.

    Hidden files and folders are ignored.
    """
    files: list[Path] = []
    for parent, folders, names in os.walk(folder, onerror=_raise_unreadable):
        folders[:] = [f for f in folders if not f.startswith(HIDDEN)]
        files += [Path(parent, name) for name in names if not name.startswith(HIDDEN)]
    images = sorted(f for f in files if f.suffix.lower() in IMAGE_SUFFIXES)
    return images, _count_suffixes(f for f in files if f.suffix.lower() not in IMAGE_SUFFIXES)


def _raise_unreadable(error: OSError) -> None:
    raise cannot_read(Path(error.filename), error) from None


def _decode_part(part: Part, size: int, strict: bool, on_progress: ProgressCallback | None, work: str) -> Decoded:
    if not part.paths:
        return Decoded(None, None, None, ())
    rows = _allocate((len(part.paths), 3, size, size))
    errors: list[str | None] = []
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as threads:
        for start in range(0, len(part.paths), BLOCK):
            block = part.paths[start : start + BLOCK]
            errors += threads.map(_decode_into, block, rows[start : start + BLOCK])
            if strict:
                _raise_first_error(part.paths, errors)
            if on_progress is not None:
                on_progress(work, len(errors), len(part.paths))
    kept = [i for i, error in enumerate(errors) if error is None]
    skipped = tuple(f"{path} ({why})" for path, why in zip(part.paths, errors, strict=True) if why is not None)
    if not kept:
        return Decoded(None, None, None, skipped)
    _move_to_front(rows, kept)
    labels = torch.tensor(part.labels)[kept]
    paths = tuple(str(part.paths[i]) for i in kept)
    return Decoded(torch.from_numpy(rows[: len(kept)]), labels, paths, skipped)


def _decode_into(path: Path, row: NDArray[np.uint8]) -> str | None:
    """Decode a file into ``row`` (3, S, S); return the error message if it cannot be read, else None."""
    try:
        row[...] = decode(path, row.shape[-1]).transpose(2, 0, 1)
    except DECODE_ERRORS as error:
        return reason_of(error, path)
    return None


def _raise_first_error(paths: Sequence[Path], errors: Sequence[str | None]) -> None:
    for path, error in zip(paths, errors, strict=False):
        if error is not None:
            raise UserError(
                f"image {path} cannot be read ({error}): repair it, remove it, or set data.strict to false."
            )


def _allocate(shape: tuple[int, ...]) -> NDArray[np.uint8]:
    """Return an empty array; a large one is a memory-mapped file, which is deleted when the array is."""
    needed = math.prod(shape)
    if needed <= MEMORY_LIMIT:
        return np.empty(shape, np.uint8)
    disk = tempfile.gettempdir()
    free = shutil.disk_usage(disk).free
    if needed > free:
        raise UserError(
            f"{shape[0]:,} images of {shape[2]} x {shape[3]} pixels take {needed / 1e9:,.0f} GB, but {disk} has "
            f"{free / 1e9:,.0f} GB free: set a smaller data.image_size, or TMPDIR to a folder on a larger disk."
        )
    folder = Path(tempfile.mkdtemp(prefix="semco-"))
    rows: NDArray[np.uint8] = np.lib.format.open_memmap(folder / "images.npy", mode="w+", dtype=np.uint8, shape=shape)
    if os.name == "posix":  # a deleted file stays until nobody uses it, so that a kill leaves nothing
        shutil.rmtree(folder)
    else:
        weakref.finalize(rows, shutil.rmtree, folder, ignore_errors=True)
    return rows


def _move_to_front(rows: NDArray[np.uint8], kept: Sequence[int]) -> None:
    """Move the rows that were read to the front, in place, because a copy could be too large."""
    for to, row in enumerate(kept):
        if to != row:
            rows[to] = rows[row]
