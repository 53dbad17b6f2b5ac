"""The vocabulary of a build: the terms of all vector files and of the graph in one order.

Shapes: n terms of the vocabulary, d embedding size, e edges.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from semco.labels.build.readers.conceptnet import Edges
from semco.labels.build.readers.vectors import VectorSet
from semco.labels.build.retrofit import adjacency
from semco.labels.store import unit_rows

FREQUENT = 45_000  # words of a file whose mean is subtracted


@dataclass(frozen=True)
class Vocabulary:
    """All terms: those that occur in more sources first, then the more frequent ones."""

    terms: list[str]  # n
    index: Mapping[str, int]  # term -> position in ``terms``

    def positions(self, terms: list[str]) -> NDArray[np.int64]:
        """Return the position of each term, -1 for terms that ``max_words`` cut off."""
        return np.fromiter((self.index.get(term, -1) for term in terms), np.int64, len(terms))

    def contained_in(self, lists: list[list[str]]) -> NDArray[np.bool_]:
        """Return which terms (n,) are in every list."""
        found = np.ones(len(self.terms), dtype=bool)
        for terms in map(set, lists):
            found &= np.fromiter((term in terms for term in self.terms), bool, len(self.terms))
        return found


def make_vocabulary(sets: list[VectorSet], edges: Edges, max_words: int | None) -> Vocabulary:
    """Return the terms of all sources, at most ``max_words``.

    Terms that occur in more sources come first, then terms with a better best rank. The rank of a term is its position
    in a vector file, or its position in the graph when the graph's terms are sorted by degree.
    """
    degrees = np.bincount(edges.start, minlength=len(edges.terms)) + np.bincount(edges.end, minlength=len(edges.terms))
    by_degree = [edges.terms[i] for i in np.argsort(-degrees, kind="stable")]
    keys: dict[str, tuple[int, int]] = {}  # term -> (minus the number of sources, best rank)
    for source in (*(vectors.terms for vectors in sets), by_degree):
        for rank, term in enumerate(source):
            sources, best_rank = keys.get(term, (0, rank))
            keys[term] = (sources - 1, min(best_rank, rank))
    terms = sorted(keys, key=lambda term: (keys[term], term))[:max_words]
    return Vocabulary(terms, {term: i for i, term in enumerate(terms)})


def vocabulary_graph(edges: Edges, vocabulary: Vocabulary) -> sparse.csr_array:
    """Return the (n, n) symmetric edge weights between the vocabulary's terms."""
    positions = vocabulary.positions(edges.terms)
    start, end = positions[edges.start], positions[edges.end]
    inside = (start >= 0) & (end >= 0)
    return adjacency(start[inside], end[inside], edges.weight[inside], len(vocabulary.terms))


def is_a_pairs(edges: Edges, vocabulary: Vocabulary) -> NDArray[np.int64]:
    """Return the (m, 2) child and parent of every IsA edge inside the vocabulary."""
    positions = vocabulary.positions(edges.terms)
    wanted = edges.relation == (edges.relations.index("IsA") if "IsA" in edges.relations else -1)
    pairs = np.stack([positions[edges.start[wanted]], positions[edges.end[wanted]]], axis=1)
    return pairs[(pairs >= 0).all(axis=1)]


def vocabulary_rows(
    vectors: VectorSet, vocabulary: Vocabulary, is_centred: bool = True
) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    """Return the unit vectors of a set, centred or not, as rows (n, d) of the vocabulary, and which have one (n,).

    Without centring, the direction that all words share would count as similarity between any two words. The mean is
    that of the file's most frequent words (`FREQUENT`): the rare ones, mostly proper names, have another.
    """
    positions = vocabulary.positions(vectors.terms)
    inside = positions >= 0
    unit = unit_rows(vectors.matrix[inside])
    rows = np.zeros((len(vocabulary.terms), vectors.matrix.shape[1]), dtype=np.float32)
    mean = unit[:FREQUENT].mean(axis=0)
    rows[positions[inside]] = unit_rows(unit - mean) if is_centred else unit
    known = np.zeros(len(vocabulary.terms), dtype=bool)
    known[positions[inside]] = True
    return rows, known
