"""How things look, guessed from their names: a map from what is known of a noun to the weights of image classifiers.

The last layer of a network that was trained on ImageNet has one vector for each class; classes that look alike have
similar ones. ``scripts/make_looks.py`` fitted a ridge regression from three features of a class name to these
vectors: its vector in the bundled store, the kinds of things that it is in the dictionary, and the words of its
definitions. The map therefore has a place for every noun. The 100 classes of Mini-ImageNet and the names of CIFAR's
classes were left out of the fit, so that runs on these data sets learn nothing from it about their images.

The regression is stored in its dual form: the place of a noun is the sum of its similarities with the R classes of the
fit, each times the weights of this class.

Shapes: K classes, d embedding size, R classes of the fit, p dimensions of a place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from semco.labels.dictionary import RARER, Dictionary, dictionary
from semco.labels.store import VectorStore, unit_rows

FILE = Path(__file__).parent / "map.npz"
DEFINITION = 0.5  # weight of the definitions in the similarity; vectors and kinds have 1

Rows = NDArray[np.float32]


@dataclass(frozen=True)
class LooksMap:
    """The terms of the classes of the fit, and their weights."""

    terms: tuple[str, ...]  # R
    weights: Rows  # (R, p)


@dataclass(frozen=True)
class Features:
    """What is known of nouns; all rows have length 1, or 0 if nothing is known."""

    vectors: Rows  # (K, d)
    kinds: sparse.csr_array  # (K, nodes of the dictionary)
    definitions: sparse.csr_array  # (K, words of definitions)

    def similarity(self, other: Features) -> Rows:
        """Return the similarity (K, R) of each noun with each of another set."""
        kinds = (self.kinds @ other.kinds.T).toarray()
        definitions = (self.definitions @ other.definitions.T).toarray()
        found: Rows = (self.vectors @ other.vectors.T + kinds + DEFINITION * definitions).astype(np.float32)
        return found


def features(vectors: Rows, nouns: Sequence[str | None]) -> Features:
    """Return the features of K nouns with unit vectors (K, d)."""
    book = dictionary()
    senses = [_weighted_senses(book, noun) for noun in nouns]
    return Features(vectors, _kind_rows(book, senses), _definition_rows(book, senses))


def _weighted_senses(book: Dictionary, noun: str | None) -> list[tuple[int, float]]:
    """Return the nodes of a noun's senses with weights that sum to 1; rarer senses count less."""
    senses = [] if noun is None else book.senses_of(noun)
    total = sum(RARER ** (2 * rank) for _, rank in senses)
    return [(node, RARER ** (2 * rank) / total) for node, rank in senses]


def _kind_rows(book: Dictionary, senses: Sequence[Sequence[tuple[int, float]]]) -> sparse.csr_array:
    """Return what each noun is a kind of, weighted by information content."""
    entries = [
        (i, above, weight * float(book.content[above]))
        for i, found in enumerate(senses)
        for node, weight in found
        for above in book.ancestors(node)
    ]
    return _unit_sparse(entries, (len(senses), len(book.below)))


def _definition_rows(book: Dictionary, senses: Sequence[Sequence[tuple[int, float]]]) -> sparse.csr_array:
    """Return the words of each noun's definitions."""
    entries = [(i, node, weight) for i, found in enumerate(senses) for node, weight in found]
    chosen = _sparse(entries, (len(senses), len(book.below)))
    return _unit(sparse.csr_array(chosen @ book.definitions))


def _sparse(entries: Sequence[tuple[int, int, float]], shape: tuple[int, int]) -> sparse.csr_array:
    rows, columns, values = zip(*entries, strict=True) if entries else ((), (), ())
    places = np.asarray(rows, dtype=np.int64), np.asarray(columns, dtype=np.int64)
    return sparse.csr_array((np.asarray(values, dtype=np.float64), places), shape=shape)  # equal places are added


def _unit_sparse(entries: Sequence[tuple[int, int, float]], shape: tuple[int, int]) -> sparse.csr_array:
    return _unit(_sparse(entries, shape))


def _unit(rows: sparse.csr_array) -> sparse.csr_array:
    lengths = np.sqrt(rows.multiply(rows).sum(axis=1))
    found: sparse.csr_array = sparse.diags_array(1 / np.maximum(lengths, 1e-9)) @ rows
    return found


@cache
def looks_map() -> LooksMap:
    """Return the map that comes with the package (``PROVENANCE.md``)."""
    with np.load(FILE) as arrays:
        terms = arrays["terms"].tobytes().decode().split("\n")
        return LooksMap(tuple(terms), arrays["weights"].astype(np.float32))


def places(store: VectorStore, vectors: Rows, terms: Sequence[str | None]) -> Rows:
    """Return the unit places (K, p) of classes with unit vectors (K, d) and terms; without a term it is 0."""
    fitted = looks_map()
    known = features(vectors, terms)
    found = unit_rows(known.similarity(reference(store, fitted.terms)) @ fitted.weights)
    found[[i for i, term in enumerate(terms) if term is None]] = 0
    return found


@cache
def reference(store: VectorStore, terms: tuple[str, ...]) -> Features:
    """Return the features of the classes of the fit; a term that the store lacks has no vector."""
    rows = np.zeros((len(terms), store.dim), dtype=np.float32)
    known = [i for i, term in enumerate(terms) if term in store]
    if known:
        rows[known] = store.vectors([terms[i] for i in known])
    return features(rows, terms)
