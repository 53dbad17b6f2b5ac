"""The kin of terms: their IsA parents and synonyms in the graph, stored with the vectors.

Two terms are related if one is kin of the other (a mallet is a hammer), or if they share kin. What they share says the
more, the fewer children it has: salmonid has three, fish has hundreds. Stores that were built without kin have none.

Files of a store: ``kin.npy`` (m positions of kin terms, those of each term together), ``kin_offsets.npy`` (n + 1) and
``children.npy`` (n numbers of IsA children in the whole graph).

Shapes: n terms of a store, m kin of all terms together, K classes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from math import log2

import numpy as np
from numpy.typing import NDArray

GENERAL = 200  # a term with more children (bird, food) says nothing about looks
MOST_SHARED = 1.5  # the weight of shared kin is cut here


@dataclass(frozen=True)
class Kin:
    """The kin of each term of a store, by positions in its order of terms."""

    positions: NDArray[np.int32]  # (m,)
    offsets: NDArray[np.uint32]  # (n + 1,)
    children: NDArray[np.int32]  # (n,)

    def of(self, term: int) -> frozenset[int]:
        """Return the kin of a term and the term itself."""
        return frozenset((term, *self.positions[self.offsets[term] : self.offsets[term + 1]].tolist()))

    def weight(self, term: int) -> float:
        """Return how much it says that two terms share this one."""
        children = int(self.children[term])
        return 1 / log2(2 + children) if children <= GENERAL else 0.0

    def shared(self, terms: Sequence[int | None]) -> NDArray[np.float64]:
        """Return the summed weight (K, K) of what every pair of terms shares; None is a class without a term."""
        found = np.zeros((len(terms), len(terms)))
        for term, classes in self._classes_of_kin(terms).items():
            found[np.ix_(classes, classes)] += self.weight(term)
        np.fill_diagonal(found, 0)
        return np.minimum(found, MOST_SHARED)

    def _classes_of_kin(self, terms: Sequence[int | None]) -> dict[int, list[int]]:
        """Return for each term the classes whose kin it is."""
        classes: dict[int, list[int]] = defaultdict(list)
        for i, term in enumerate(terms):
            for other in () if term is None else self.of(term):
                classes[other].append(i)
        return classes

    def direct(self, terms: Sequence[int | None]) -> NDArray[np.bool_]:
        """Return for every pair of terms (K, K) whether one is kin of the other."""
        found = np.zeros((len(terms), len(terms)), dtype=bool)
        classes = self._classes_of_kin(terms)
        for i, term in enumerate(terms):
            found[i, [] if term is None else classes[term]] = True
        np.fill_diagonal(found, False)
        return found | found.T

    def common(self, a: int, b: int) -> list[int]:
        """Return what two terms share, the most telling first."""
        both = [term for term in self.of(a) & self.of(b) if self.weight(term) > 0]
        return sorted(both, key=lambda term: (-self.weight(term), term))


def kin_table(pairs: NDArray[np.int64], children: NDArray[np.int64], size: int) -> Kin:
    """Return the kin of ``size`` terms from pairs (p, 2) of a term and its kin; pairs may be repeated."""
    pairs = np.unique(pairs[pairs[:, 0] != pairs[:, 1]], axis=0)
    counts = np.bincount(pairs[:, 0], minlength=size)
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.uint32)
    return Kin(pairs[:, 1].astype(np.int32), offsets, children.astype(np.int32))


def reordered(kin: Kin, order: NDArray[np.int64]) -> Kin:
    """Return the kin of the terms ``order`` (k,) in this order; kin that is not among them is left out."""
    place = np.full(len(kin.children), -1, dtype=np.int64)
    place[order] = np.arange(len(order))
    counts = kin.offsets[1:].astype(np.int64) - kin.offsets[:-1]
    owners = place[np.repeat(np.arange(len(kin.children)), counts)]
    pairs = np.stack([owners, place[kin.positions]], axis=1)
    return kin_table(pairs[(pairs >= 0).all(axis=1)], kin.children[order].astype(np.int64), len(order))
