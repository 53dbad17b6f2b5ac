"""Names of WordNet ids: ImageNet and the data sets made from it call their classes ``n01532829`` instead of names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

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
