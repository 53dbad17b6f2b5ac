"""The folders test/CLASS and val/CLASS beside a table of labels: the class and the part of the images in them.

A table need not list these images. They are for testing and for validation only, as in a folder of class folders.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from semco.data.folder import test_class_folders, validation_class_folders
from semco.data.names import ClassIndex, shown_name
from semco.data.sources.rows import Role

SHOWN = 5  # folders that a note names


@dataclass(frozen=True)
class PartFolder:
    """One folder test/CLASS or val/CLASS."""

    name: str  # such as test/cat
    role: Role
    class_name: str | None  # None: the table does not have this class


class PartFolders:
    """The folders test/CLASS and val/CLASS below ``root``, for the ``classes`` of a table."""

    def __init__(self, root: Path, classes: Iterable[str]) -> None:
        labels = sorted(set(classes))
        index = ClassIndex([shown_name(label) for label in labels])

        def class_of(folder: Path) -> str | None:
            position = labels.index(folder.name) if folder.name in labels else index.find(folder.name)
            return None if position is None else labels[position]

        test, validation = test_class_folders(root), validation_class_folders(root)
        # A folder val/ without a class of the table is a folder like any other: "valid" may be the name of a class.
        is_validation = {folder.parent for folder in validation if class_of(folder) is not None}
        parts: list[tuple[Path, Role]] = [(folder, "test") for folder in test]
        parts += [(folder, "validation") for folder in validation if folder.parent in is_validation]
        self._found = {
            str(folder): PartFolder(f"{folder.parent.name}/{folder.name}", role, class_of(folder))
            for folder, role in parts
        }
        self._starts = sorted({str(folder.parent) + os.sep for folder, _ in parts})

    def find(self, image: str) -> PartFolder | None:
        """Return the folder that an image is in, directly or in a folder below it; None if it is in none of them."""
        start = next((each for each in self._starts if image.startswith(each)), None)
        return None if start is None else self._found.get(start + image[len(start) :].partition(os.sep)[0])


def notes_on_parts(images: Counter[PartFolder]) -> list[str]:
    """Return what is done with the images in these folders that a table does not list, given their numbers."""
    used: Counter[Role] = Counter()
    unknown: Counter[str] = Counter()
    for folder, count in images.items():
        if folder.class_name is None:
            unknown[folder.name] += count
        else:
            used[folder.role] += count
    counts = [f"{count:,} for {what} only" for role, what in _PURPOSES.items() if (count := used[role])]
    notes = [f"images in test/CLASS or val/CLASS that the table does not list: {', '.join(counts)}"] if counts else []
    if unknown:
        some = ", ".join(list(unknown)[:SHOWN]) + (", ..." if len(unknown) > SHOWN else "")
        notes.append(f"{unknown.total():,} images are left out, because no label names the class of {some}")
    return notes


_PURPOSES: dict[Role, str] = {"test": "testing", "validation": "validation"}
