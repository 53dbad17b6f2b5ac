"""Vectors for terms that a set of vectors lacks, from the other sets and from the words of the term.

Retrofitting alone would make such a term the mean of its neighbours in the graph, so all rare birds would lie where
`bird` lies. An inferred vector keeps what separates them:

1. a term that another set knows: that set's vector, translated by the linear map (ridge regression) that fits the
   terms of both sets;
2. a term of several words that no set knows (``red_cockaded_woodpecker``): the mean of its words, in which the last
   word, which names the thing, weighs as much as all others together.

Shapes: n terms, a and b the dimensions of two sets.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from semco.labels.store import unit_rows

Rows = NDArray[np.float32]
Mask = NDArray[np.bool_]
RIDGE = 1.0  # rows are unit vectors, and thousands of terms are common, so the fit is not sensitive to it


def translate_missing(sets: Sequence[tuple[Rows, Mask]]) -> list[Mask]:
    """Fill the rows (n, a) of terms that a set lacks and another knows, and return which those are (n,) in each set."""
    filled = [np.zeros_like(known) for _, known in sets]
    for i, (rows, known) in enumerate(sets):
        for j, (others, given) in enumerate(sets):
            missing, common = given & ~known & ~filled[i], known & given
            if i != j and missing.any() and common.any():
                rows[missing] = translate(others[common], rows[common], others[missing])
                filled[i] |= missing
    return filled


def compose_missing(sets: Sequence[tuple[Rows, Mask]], terms: Sequence[str], index: Mapping[str, int]) -> list[Mask]:
    """Fill the rows (n, a) of terms of several words that no set knows, and return which those are (n,) in each set."""
    words = word_weights(terms, index, np.logical_or.reduce([known for _, known in sets]))
    filled = []
    for rows, known in sets:
        composed = unit_rows((words @ np.where(known[:, None], rows, np.float32(0))).astype(np.float32))
        found = (np.abs(composed).sum(axis=1) > 0) & ~known
        rows[found] = composed[found]
        filled.append(found)
    return filled


def translate(source: Rows, target: Rows, wanted: Rows) -> Rows:
    """Return unit rows (m, b) for ``wanted`` (m, a), by the linear map that fits ``source`` (k, a) to ``target``."""
    gram = source.T.astype(np.float64) @ source + RIDGE * np.eye(source.shape[1])
    projection = np.linalg.solve(gram, source.T.astype(np.float64) @ target)
    return unit_rows((wanted @ projection.astype(np.float32)).astype(np.float32))


def word_weights(terms: Sequence[str], index: Mapping[str, int], known: Mask) -> sparse.csr_array:
    """Return the weights (n, n) of the words of each term of several words that is not known but whose last word is."""
    rows, columns, weights = [], [], []
    for i in np.flatnonzero(~known).tolist():
        words = [index.get(word.removesuffix("'s"), -1) for word in terms[i].split("_")]
        if len(words) < 2 or words[-1] < 0 or not known[words[-1]]:
            continue
        others = [word for word in words[:-1] if word >= 0 and known[word]]
        rows += [i] * (1 + len(others))
        columns += [words[-1], *others]
        weights += [1.0, *[1.0 / len(others) for _ in others]]
    shape = (len(terms), len(terms))
    return sparse.csr_array((np.asarray(weights, dtype=np.float32), (rows, columns)), shape=shape)
