"""A dictionary of things: the senses of nouns that can be photographed, what each is a kind of, and its definition.

A node's information content is 1 - log(nodes below it) / log(all nodes): 1 for a leaf, 0 for "entity" (Seco et al.
2004). The words of a definition are weighted by how rare they are (TF-IDF). `relations` says how closely nouns are
related.

Shapes: N nouns, s senses of all nouns, n nodes of the hierarchy, w words, S nodes of interest.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

RARER = 0.8  # a sense counts less, the more frequent senses its noun has: a dog is hardly a sausage
LIVING = ("chordate", "invertebrate", "tracheophyte", "fungus")  # the most general names of animals, plants and fungi
FILE = Path(__file__).parent / "wordnet.npz"
TEXTS = ("nouns", "words")

Square = NDArray[np.float32]
Ints = NDArray[np.int32]


@dataclass(frozen=True)
class Dictionary:
    """Nouns with their senses, which are nodes of a hierarchy; "x_offsets" divide "x" into one part per item."""

    nouns: list[str]  # N, sorted, words joined by "_"
    sense_offsets: Ints  # (N + 1,)
    senses: Ints  # (s,) nodes
    ranks: NDArray[np.uint8]  # (s,) 0 for the most frequent sense of a noun
    parent_offsets: Ints  # (n + 1,)
    parents: Ints  # nodes
    below: Ints  # (n,) number of nodes below each node, with itself
    words: list[str]  # w words of definitions
    gloss_offsets: Ints  # (n + 1,)
    gloss: NDArray[np.uint16]  # positions in words

    @cached_property
    def _place(self) -> dict[str, int]:
        return {noun: i for i, noun in enumerate(self.nouns)}

    @cached_property
    def _word_place(self) -> dict[str, int]:
        return {word: i for i, word in enumerate(self.words)}

    def __contains__(self, noun: str) -> bool:
        return noun in self._place

    @cached_property
    def content(self) -> NDArray[np.float32]:
        """The information content (n,) of each node."""
        content: NDArray[np.float32] = (1 - np.log(self.below) / np.log(self.below.max())).astype(np.float32)
        return content

    @cached_property
    def definitions(self) -> sparse.csr_array:
        """The words of each node's definition (n, w) by TF-IDF; rows have length 1."""
        counts = np.bincount(self.gloss, minlength=len(self.words))
        rarity = np.log(len(self.below) / np.maximum(counts, 1)).astype(np.float32)
        shape = (len(self.below), len(self.words))
        rows = sparse.csr_array((rarity[self.gloss], self.gloss.astype(np.int32), self.gloss_offsets), shape=shape)
        lengths = np.sqrt(rows.multiply(rows).sum(axis=1))
        scale: sparse.csr_array = sparse.diags_array(1 / np.maximum(lengths, 1e-9)) @ rows
        return scale

    def ancestors(self, node: int) -> frozenset[int]:
        """Return a node and everything that it is a kind of."""
        found, todo = {node}, [node]
        while todo:
            one = todo.pop()
            above = self.parents[self.parent_offsets[one] : self.parent_offsets[one + 1]].tolist()
            todo += [parent for parent in above if parent not in found]
            found.update(above)
        return frozenset(found)

    def known(self, noun: str) -> str | None:
        """Return the longest end of a compound that is in the dictionary: ``gala_apple`` is an ``apple``."""
        words = noun.split("_")
        return next((end for i in range(len(words)) if (end := "_".join(words[i:])) in self._place), None)

    def senses_of(self, noun: str) -> list[tuple[int, int]]:
        """Return the nodes and ranks of the senses of a noun or compound.

        A compound that is not in the dictionary is what its end is. If the rest of it is such a thing, too, it is that:
        a maple tree is a maple, of which one sense is a tree.
        """
        end = self.known(noun)
        return [] if end is None else self._senses_of_rest(noun, end) or self._ranked(end)

    def has_only_end(self, noun: str) -> bool:
        """Return whether all that is known of a compound is its end: a ``milk_carton`` is some carton."""
        end = self.known(noun)
        return end is not None and end != noun and not self._senses_of_rest(noun, end)

    def is_living(self, noun: str) -> bool:
        """Return whether a sense of a noun is an animal, a plant or a fungus."""
        return any(self._living & self.ancestors(node) for node, _ in self.senses_of(noun))

    @cached_property
    def _living(self) -> frozenset[int]:
        return frozenset(node for noun in LIVING for node, _ in self._ranked(noun))

    def _senses_of_rest(self, noun: str, end: str) -> list[tuple[int, int]]:
        """Return the senses of what a compound has before its ``end`` that are a kind of this end."""
        nodes = {node for node, _ in self._ranked(end)}
        rest = noun.removesuffix(end).rstrip("_")
        return [(node, 0) for node, _ in self._ranked(rest) if self.ancestors(node) & nodes]

    def words_of(self, node: int) -> frozenset[int]:
        """Return the numbers of the words of a node's definition."""
        return frozenset(self.gloss[self.gloss_offsets[node] : self.gloss_offsets[node + 1]].tolist())

    def word_number(self, word: str) -> int:
        """Return the number of a word of definitions, -1 if no definition has it."""
        return self._word_place.get(word, -1)

    def kinds(self, nodes: Ints, common: Square) -> Square:
        """Return Lin's similarity of every pair of nodes (S, S), given what they have in `common`."""
        own = self.content[nodes]
        found: Square = 2 * common / np.maximum(own[:, None] + own, 1e-9)
        return found

    def common(self, nodes: Ints) -> Square:
        """Return the information content (S, S) of the most special thing that both nodes are a kind of."""
        below: dict[int, list[int]] = {}
        for i, node in enumerate(nodes.tolist()):
            for above in self.ancestors(node):
                below.setdefault(above, []).append(i)
        found = np.zeros((len(nodes), len(nodes)), dtype=np.float32)
        for above in sorted(below, key=self.content.__getitem__):  # the most special last
            found[np.ix_(below[above], below[above])] = self.content[above]
        return found

    def nearest_kind(self, a: str, b: str) -> str | None:
        """Return a noun for the most special thing that two nouns are a kind of in frequent senses, or None."""
        best: tuple[float, int] = (0.0, -1)
        for i, first in self.senses_of(a):
            for j, second in self.senses_of(b):
                weight = RARER ** (first + second)
                common = self.ancestors(i) & self.ancestors(j)
                best = max(best, *((weight * float(self.content[node]), node) for node in common))
        return self._noun_of.get(best[1])

    def _ranked(self, noun: str) -> list[tuple[int, int]]:
        """Return the nodes and ranks of a noun's senses."""
        place = self._place.get(noun)
        if place is None:
            return []
        part = slice(self.sense_offsets[place], self.sense_offsets[place + 1])
        return list(zip(self.senses[part].tolist(), self.ranks[part].tolist(), strict=True))

    @cached_property
    def _noun_of(self) -> dict[int, str]:
        """A noun for each node: the one for which it is the most frequent sense, the shortest if there are several."""
        owners = np.repeat(np.arange(len(self.nouns)), np.diff(self.sense_offsets))
        order = sorted(range(len(owners)), key=lambda i: (-int(self.ranks[i]), -len(self.nouns[owners[i]])))
        return {int(self.senses[i]): self.nouns[owners[i]] for i in order}


@cache
def dictionary() -> Dictionary:
    """Return the dictionary that comes with the package (``PROVENANCE.md``)."""
    with np.load(FILE) as arrays:
        content: dict[str, Any] = {key: arrays[key] for key in arrays.files}
    content |= {name: content[name].tobytes().decode().split("\n") for name in TEXTS}
    return Dictionary(**content)


def write_dictionary(path: Path, content: Dictionary) -> None:
    """Write a dictionary as one compressed file."""
    arrays = {field.name: getattr(content, field.name) for field in fields(content)}
    for name in TEXTS:
        arrays[name] = np.frombuffer("\n".join(arrays[name]).encode(), np.uint8)
    np.savez_compressed(path, **arrays)
