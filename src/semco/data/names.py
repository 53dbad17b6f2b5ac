"""Class names as they are shown: WordNet ids become words, and one class is for photos of none of the others."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cache, cached_property
from pathlib import Path

from semco.errors import UserError

LISTS = Path(__file__).parent / "class_lists"


@cache
def wordnet_names() -> Mapping[str, str]:
    """Return the names of the 1,000 ids of ImageNet."""
    lines = (LISTS / "imagenet.txt").read_text(encoding="utf-8").splitlines()
    return {line[:9]: line[10:] for line in lines}


def listed_names(name: str) -> tuple[str, ...]:
    """Return the lines of one of the lists of class names."""
    return tuple((LISTS / f"{name}.txt").read_text(encoding="utf-8").splitlines())


def readable_class(name: str) -> str:
    """Return the name of a class that is given by its WordNet id; any other name stays as it is."""
    return wordnet_names().get(name, name)


def wordnet_notes(names: Sequence[str]) -> tuple[str, ...]:
    """Return a sentence about the names that are WordNet ids, if there are any."""
    known = [name for name in names if name in wordnet_names()]
    if not known:
        return ()
    example = f"{known[0]} is {wordnet_names()[known[0]]!r}"
    return (f"{len(known):,} classes are WordNet ids, which are replaced by their names ({example})",)


# The class of photos that show none of the classes, and common names of its folder or label.
NONE_OF_THESE = "none of these"
SPELLINGS = ("other", NONE_OF_THESE)


def simplify_name(name: str) -> str:
    """Return a name in lower case, with single spaces in place of white space, underscores and hyphens."""
    return re.sub(r"[\s_-]+", " ", name).strip().casefold()


def is_none_of_these(name: str) -> bool:
    """Return whether a class is for photos of none of the other classes; its name says nothing about its looks."""
    return simplify_name(name) in SPELLINGS


def shown_name(folder: str) -> str:
    """Return the name of the class that is in a folder."""
    return NONE_OF_THESE if is_none_of_these(folder) else readable_class(folder)


class ClassIndex:
    """Finds a class by a name that a person wrote, such as that of a folder.

    Case, spaces, underscores and hyphens are ignored, unless known names differ only in these.
    """

    def __init__(self, known: Sequence[str]) -> None:
        self._known = known

    def find(self, name: str) -> int | None:
        """Return the position of the class; None if there is none, or more than one."""
        name = name if name in self._known else shown_name(name)
        if self._known.count(name) == 1:
            return self._known.index(name)
        similar = self._similar.get(simplify_name(name), ())
        return similar[0] if len(similar) == 1 else None

    @cached_property
    def _similar(self) -> Mapping[str, Sequence[int]]:
        found: dict[str, list[int]] = defaultdict(list)
        for position, name in enumerate(self._known):
            found[simplify_name(name)].append(position)
        return found


def shown_names(folders: Sequence[str]) -> list[str]:
    """Return the class names of folders; WordNet ids are replaced, unless that would give a name to two folders."""
    none = [folder for folder in folders if is_none_of_these(folder)]
    if len(none) > 1:
        raise UserError(
            f"the folders {' and '.join(map(repr, none))} are both for photos of none of the classes; keep one of them."
        )
    names = [shown_name(folder) for folder in folders]
    if len(set(names)) == len(names):
        return names
    return [NONE_OF_THESE if folder in none else folder for folder in folders]
