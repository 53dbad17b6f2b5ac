"""Fit the map from the sentence encoder's vectors to those of the bundled store (`semco.labels.sentences`).

    python scripts/make_sentence_map.py

Ridge regression on the terms of the store. 400 terms are left out to print the mean cosine of their places with their
vectors. The mean of the vectors of the ten terms with the nearest sentences fits better (docs/lab/labels.md), but
needs the sentence vectors of all terms, 74 MB; the map has 131 kB.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from semco.labels.sentences import FILE, encode
from semco.labels.store import bundled_store, unit_rows

RIDGE = 1e-4  # times the number of terms
LEFT_OUT = 400
BATCH = 2000  # texts encoded at once

Rows = NDArray[np.float32]


def main() -> None:
    store = bundled_store()
    terms = list(store.terms())
    sentences = encode_terms(terms)
    vectors = store.vectors(terms)
    order = np.random.default_rng(0).permutation(len(terms))
    test, train = order[:LEFT_OUT], order[LEFT_OUT:]
    weights = fit(sentences[train], vectors[train])
    found = unit_rows(sentences[test] @ weights[:-1] + weights[-1])
    print(f"mean cosine of {LEFT_OUT} terms that were left out: {(found * vectors[test]).sum(axis=1).mean():.3f}")
    np.save(FILE, weights.astype(np.float16))


def encode_terms(terms: list[str]) -> Rows:
    """Return the sentence vectors (n, e) of terms."""
    texts = [term.replace("_", " ") for term in terms]
    return np.concatenate([encode(texts[i : i + BATCH]) for i in range(0, len(texts), BATCH)])


def fit(inputs: Rows, targets: Rows) -> Rows:
    """Return the weights (e + 1, d) of the ridge regression of targets (n, d) on inputs (n, e), intercept last."""
    centre, offset = inputs.mean(axis=0), targets.mean(axis=0)
    shifted = inputs - centre
    square = shifted.T @ shifted / len(inputs) + RIDGE * np.eye(inputs.shape[1], dtype=np.float32)
    weights = np.linalg.solve(square, shifted.T @ (targets - offset) / len(inputs))
    return np.concatenate([weights, (offset - centre @ weights)[None]]).astype(np.float32)


if __name__ == "__main__":
    main()
