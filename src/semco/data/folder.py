"""A folder of class folders.

    photos/cat/*.jpg   photos/dog/**/*.png   photos/unlabeled/*   photos/val/cat/*   photos/test/cat/*

The class folders may also be inside a folder ``train/``, and all of it inside a folder that holds nothing else. A class
folder may be called by its WordNet id. A folder ``other/`` holds photos of none of the classes.
"""

from __future__ import annotations

import os
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from semco.config import DataConfig
from semco.data.datasets import Dataset, ProgressCallback, choose_classes, find_class
from semco.data.decode import IMAGE_SUFFIXES
from semco.data.listing import Listing, Part
from semco.data.names import shown_name, shown_names, wordnet_notes
from semco.data.pixels import read_listing
from semco.errors import UserError
from semco.files import cannot_read, no_such

UNLABELLED_FOLDERS = ("unlabeled", "unlabelled")
TEST_FOLDERS = ("test",)
VALIDATION_FOLDERS = ("val", "valid", "validation")
HIDDEN = (".", "__")  # first characters of the names of hidden files and of files left by other programs
DEEPEST_WRAPPER = 5


def read_folder(root: Path, config: DataConfig, on_progress: ProgressCallback | None = None) -> Dataset:
    """Read a folder of class folders; images that cannot be read are skipped and listed in `Dataset.skipped`."""
    return read_listing(str(root), list_folder(root, config.classes), config, on_progress)


def list_folder(root: Path, classes: Sequence[str] | None = None) -> Listing:
    """Find the classes and images in a folder; ``classes`` selects some of the classes, in that order."""
    if not root.is_dir():
        raise no_such("folder", root)
    root = _without_wrapper(root)
    base = _class_root(root)
    folders = class_folders_of(base)
    names = shown_names(folders)
    order = range(len(names)) if classes is None else choose_classes(names, classes)
    labels = {folders[position]: label for label, position in enumerate(order)}
    train, test = Part(), Part()
    ignored: Counter[str] = Counter()
    for folder in {root, base}:
        ignored += _count_files(folder)
    for name, label in labels.items():
        ignored += _add_files(train, base / name, label)
    for folder in _special_folders({root, base}, UNLABELLED_FOLDERS):
        ignored += _add_files(train, folder)
    for folder in _validation_folders(root, base, folders):
        ignored += _add_classes(train, folder, folders, names, labels, held_out=True)
    for folder in _special_folders({root, base}, TEST_FOLDERS):
        ignored += _add_classes(test, folder, folders, names, labels)
    chosen = tuple(names[position] for position in order)
    notes = (*wordnet_notes(folders), *_validation_notes(train), *_stray_notes(root, ignored))
    if not set(labels.values()) <= set(train.labels):
        _check_two_classes(base, train)
    return Listing(chosen, train, test, ignored, notes).without_unlabelled_classes()


def _validation_notes(train: Part) -> tuple[str, ...]:
    count = sum(train.held_out)
    return (f"the {count:,} images of the validation folder are for validation only",) if count else ()


def _stray_notes(root: Path, ignored: Counter[str]) -> tuple[str, ...]:
    """Return a sentence about images that are in no class folder, if there are any, and what to do with them."""
    count = sum(ignored[suffix] for suffix in IMAGE_SUFFIXES)
    if not count:
        return ()
    place, command = f"{root / UNLABELLED_FOLDERS[0]}/", f"semco studio {shlex.quote(str(root))}"
    return (
        f"{count:,} image(s) in no class folder are not used: put them into {place}, where they are used without a "
        f"label, or label them on a page (`{command}`)",
    )


def _check_two_classes(base: Path, train: Part) -> None:
    if len({label for label in train.labels if label >= 0}) < 2:
        kinds = ", ".join(sorted(IMAGE_SUFFIXES))
        raise UserError(f"fewer than two class folders of {base} contain an image ({kinds}): add some images.")


def class_folders(root: Path) -> list[str]:
    """Return the names of the classes of a folder, in the order of its class folders."""
    return list(class_folder_names(root).values())


def class_folder_names(root: Path) -> dict[Path, str]:
    """Return the class folders of a folder with the names of their classes."""
    base = _class_root(_without_wrapper(root))
    folders = class_folders_of(base)
    return {base / folder: name for folder, name in zip(folders, shown_names(folders), strict=True)}


def test_class_folders(root: Path) -> list[Path]:
    """Return the folders test/CLASS of a folder, sorted."""
    return _folders_inside(root, TEST_FOLDERS)


def validation_class_folders(root: Path) -> list[Path]:
    """Return the folders val/CLASS of a folder, sorted; "valid" may also be the name of a class."""
    return _folders_inside(root, VALIDATION_FOLDERS)


def _folders_inside(root: Path, names: Sequence[str]) -> list[Path]:
    root = _without_wrapper(root)
    return [inner for folder in _special_folders({root, _class_root(root)}, names) for inner in subfolders(folder)]


def class_folders_of(base: Path) -> list[str]:
    """Return the names of the class folders in a folder, sorted."""
    names = [f.name for f in subfolders(base) if not _is_special(f.name)]
    validation = {folder.name for folder in _validation_folders(base, base, names)}
    names = [name for name in names if name not in validation]
    if len(names) < 2:
        found = f"one class folder ({names[0]})" if names else "no class folder"
        raise UserError(
            f"{base} contains {found}: create one folder per class, for at least two classes, and put photos without a "
            f"label into {UNLABELLED_FOLDERS[0]}/; or label photos on a page: semco studio {shlex.quote(str(base))}"
        )
    return names


def _without_wrapper(root: Path) -> Path:
    """Return the folder itself, or the only folder in it if that one holds all there is."""
    for _ in range(DEEPEST_WRAPPER):
        inner = subfolders(root)
        if len(inner) != 1 or _is_special(inner[0].name) or inner[0].name.lower() == "train":
            break
        content = [*_entries(root), *_entries(inner[0])]
        if not subfolders(inner[0]) or any(_is_image(f.name) for f in content if f.is_file()):
            break
        root = inner[0]
    return root


def _class_root(root: Path) -> Path:
    """Return the folder that contains the class folders: ``root`` or its folder ``train``."""
    siblings = {f.name.lower(): f for f in subfolders(root)}
    train = siblings.pop("train", None)
    others = [n for n in siblings if not _is_special(n) and n not in VALIDATION_FOLDERS]
    if train is None or others or not subfolders(train):
        return root  # "train" can also be the name of a class
    return train


def _validation_folders(root: Path, base: Path, names: Sequence[str]) -> list[Path]:
    """Return the folders of validation images: those of that name that have class folders of the same classes."""
    known = set(names)
    candidates = _special_folders({root, base}, VALIDATION_FOLDERS)
    return [f for f in candidates if known & {inner.name for inner in subfolders(f)}]


def _is_special(name: str) -> bool:
    return name.lower() in (*UNLABELLED_FOLDERS, *TEST_FOLDERS)


def _special_folders(roots: set[Path], names: Sequence[str]) -> list[Path]:
    return sorted(f for root in roots for f in subfolders(root) if f.name.lower() in names)


def _add_files(part: Part, folder: Path, label: int = -1, *, held_out: bool = False) -> Counter[str]:
    """Add the images of a folder to a part, and return the number of its other files per suffix."""
    images, others = image_files(folder)
    part.add_files(images, label, held_out=held_out)
    return others


def _add_classes(
    part: Part,
    folder: Path,
    folders: Sequence[str],
    names: Sequence[str],
    labels: dict[str, int],
    *,
    held_out: bool = False,
) -> Counter[str]:
    """Add the images in test/<class>/ of the chosen classes, and return the number of other files per suffix."""
    ignored = _count_files(folder)
    positions = {name: position for position, name in enumerate(folders)}
    for one in subfolders(folder):
        position = positions.get(one.name)
        if position is None:
            position = find_class(names, shown_name(one.name), f"class in {folder}:")
        if folders[position] in labels:
            ignored += _add_files(part, one, labels[folders[position]], held_out=held_out)
    return ignored


def subfolders(folder: Path) -> list[Path]:
    """Return the folders in a folder that are not hidden, sorted."""
    return sorted(f for f in _entries(folder) if f.is_dir())


def _count_files(folder: Path) -> Counter[str]:
    return _count_suffixes(f.name for f in _entries(folder) if f.is_file())


def _entries(folder: Path) -> list[Path]:
    """Return the files and folders in a folder that are not hidden."""
    try:
        return [f for f in folder.iterdir() if not f.name.startswith(HIDDEN)]
    except OSError as error:
        raise cannot_read(folder, error) from None


def _suffix(name: str) -> str:
    return os.path.splitext(name)[1].lower().removesuffix(".")  # noqa: PTH122 (for a million names)


def _is_image(name: str) -> bool:
    return _suffix(name) in IMAGE_SUFFIXES


def _count_suffixes(names: Iterable[str]) -> Counter[str]:
    return Counter(map(_suffix, names))


def image_files(folder: Path) -> tuple[list[str], Counter[str]]:
    """Return the paths of the images in a folder and its subfolders, sorted, and the number of other files per suffix.

    Hidden files and folders are ignored.
    """
    images: list[str] = []
    others: Counter[str] = Counter()
    for path in walk_files(str(folder)):
        suffix = _suffix(path)
        if suffix in IMAGE_SUFFIXES:
            images.append(path)
        else:
            others[suffix] += 1
    return images, others


def walk_files(folder: str) -> Iterator[str]:
    """Yield the files below a folder, sorted by the parts of their paths; links to folders are not followed."""
    waiting = [(folder, True)]
    while waiting:
        path, is_folder = waiting.pop()
        if not is_folder:
            yield path
            continue
        try:
            with os.scandir(path) as found:
                inside = sorted((each for each in found if not each.name.startswith(HIDDEN)), key=lambda e: e.name)
        except OSError as error:
            raise cannot_read(Path(path), error) from None
        for each in reversed(inside):
            if each.is_dir(follow_symlinks=False):
                waiting.append((each.path, True))
            elif not _leads_to_folder(each):
                waiting.append((each.path, False))


def _leads_to_folder(entry: os.DirEntry[str]) -> bool:
    """Return whether a link leads to a folder; one that leads back to itself is a file that cannot be read."""
    try:
        return entry.is_dir()
    except OSError:
        return False
