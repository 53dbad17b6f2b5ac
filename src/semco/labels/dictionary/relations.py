"""How closely the nouns of a set of classes are related, by the senses that fit the other classes.

    relation = weights of the two senses x (0.5 kind + 0.35 definition + 0.25 (one is named in the other's definition))

for the closest two senses of two nouns. ``kind`` is Lin's similarity in WordNet's hierarchy: 2 c / (a + b), where a, b
and c are the information contents of the two senses and of the most special thing that both are a kind of.
``definition`` is the cosine of the words of the two definitions. Unlike cosines of word vectors, this is about one
sense: a bat is close to a mouse as an animal, and to a racket as a thing to hit with.

The weight of a sense is 0.8^rank times how well it fits the classes (its mean kind with the three classes that are
nearest to it), relative to the best sense of the noun: a crane is a bird beside herons, and a machine beside trucks.

Shapes: K classes, S senses of the K classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from semco.labels.dictionary import RARER, Dictionary, Ints, Square

KIND, DEFINITION, NAMED = 0.5, 0.35, 0.25  # weights; docs/lab/labels.md
CONTEXT = 3  # classes that decide how well a sense fits


@dataclass(frozen=True)
class Relations:
    """Closeness of every pair of nouns, and the weight of the senses in which they are related."""

    total: Square  # (K, K), 0 on the diagonal
    weight: Square  # (K, K); 1 if the dictionary does not relate the two nouns

    @classmethod
    def none(cls, size: int) -> Relations:
        """Return the relations of nouns that are not in the dictionary."""
        return cls(np.zeros((size, size), np.float32), np.ones((size, size), np.float32))


@dataclass(frozen=True)
class Senses:
    """The senses of some nouns, those of each noun together."""

    nodes: Ints  # (S,)
    ranks: Ints  # (S,)
    owners: NDArray[np.int64]  # (S,) position of the noun, from 0

    @property
    def starts(self) -> NDArray[np.int64]:
        """The position of each noun's first sense."""
        return np.flatnonzero(np.diff(self.owners, prepend=-1))


def relations(book: Dictionary, nouns: Sequence[str | None]) -> Relations:
    """Return the closeness of every pair of K nouns."""
    found = [() if noun is None else tuple(book.senses_of(noun)) for noun in nouns]
    known = [i for i, senses in enumerate(found) if senses]
    result = Relations.none(len(nouns))
    if len(known) > 1:
        flat = [(node, rank, i) for i, place in enumerate(known) for node, rank in found[place]]
        nodes, ranks, owners = (np.asarray(column) for column in zip(*flat, strict=True))
        names = [book.known(nouns[i] or "") or "" for i in known]
        total, weight = _closest(book, names, Senses(nodes.astype(np.int32), ranks.astype(np.int32), owners))
        result.total[np.ix_(known, known)] = total
        result.weight[np.ix_(known, known)] = weight
    np.fill_diagonal(result.total, 0)
    return result


def _closest(book: Dictionary, nouns: Sequence[str], senses: Senses) -> tuple[Square, Square]:
    """Return the relation of the closest senses of every pair of nouns and the weight of these senses."""
    common = book.common(senses.nodes)  # (S, S)
    kinds = book.kinds(senses.nodes, common)
    named = _named(book, nouns, senses.nodes)[senses.owners]  # the noun of the row is in the definition of the column
    texts = book.definitions[senses.nodes]
    total = KIND * kinds + DEFINITION * (texts @ texts.T).toarray() + NAMED * (named | named.T)
    own = sense_weights(kinds, senses)
    weight = own[:, None] * own
    total *= weight
    total[common <= 0] = 0  # things that have nothing in common: a definition proves nothing
    best = _block_maximum(total, senses.starts)
    is_best = (total > 0) & (total == best[np.ix_(senses.owners, senses.owners)])
    of_best = _block_maximum(np.where(is_best, weight, 0), senses.starts)
    return best, np.where(best > 0, of_best, 1).astype(np.float32)


def sense_weights(kinds: Square, senses: Senses) -> NDArray[np.float32]:
    """Return the weight (S,) of each sense, 1 for the best of a noun; ``kinds`` (S, S) is Lin's similarity."""
    prior = np.float32(RARER) ** senses.ranks
    to_others = np.where(senses.owners[:, None] == senses.owners, 0, kinds * prior)
    nearest = np.sort(np.maximum.reduceat(to_others, senses.starts, axis=1), axis=1)[:, :-1]  # (S, K - 1)
    fit = prior * nearest[:, -CONTEXT:].mean(axis=1)
    best = np.maximum.reduceat(fit, senses.starts)[senses.owners]
    weights: NDArray[np.float32] = np.where(best > 0, fit / np.maximum(best, 1e-9), prior).astype(np.float32)
    return weights


def _block_maximum(values: Square, starts: NDArray[np.int64]) -> Square:
    """Return the largest value (K, K) of each block of senses (S, S)."""
    found: Square = np.maximum.reduceat(np.maximum.reduceat(values, starts, axis=0), starts, axis=1)
    return found


def _named(book: Dictionary, nouns: Sequence[str], nodes: Ints) -> NDArray[np.bool_]:
    """Return whether the definition of a node contains all words of a noun (K, S)."""
    found = np.zeros((len(nouns), len(nodes)), dtype=bool)
    bags = [book.words_of(node) for node in nodes.tolist()]
    for i, noun in enumerate(nouns):
        wanted = {book.word_number(word) for word in noun.split("_")}
        found[i] = [wanted <= bag for bag in bags]
    return found
