"""Measure the quality of label vectors on the 100 class names of CIFAR-100.

Four measures: (a) agreement with the paper's table of groups, (b) the share of grouped pairs within one superclass, (c)
the rank correlation of cosines with the visual similarity of classes over all pairs, and (d) the average precision at
finding the pairs that look most alike, which are the ones that matter for grouping.

Shapes: K = 100 classes, P = K (K - 1) / 2 pairs of classes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from semco.data.npy import read_npy
from semco.errors import UserError
from semco.files import open_regular
from semco.groups.grouping import Rule, group_classes
from semco.labels.embeddings import LabelSource

Pair = frozenset[str]

# Table "CIFAR-100 class groups obtained by clustering the retrofitted embeddings" (supplement).
PAPER_GROUPS = (
    ("aquarium_fish", "flatfish", "trout"),
    ("bicycle", "motorcycle"),
    ("boy", "girl"),
    ("crab", "lobster"),
    ("dolphin", "whale"),
    ("man", "woman"),
    ("oak_tree", "pine_tree"),
)

# Krizhevsky 2009: 20 superclasses of 5 classes.
SUPERCLASSES = {
    "aquatic_mammals": "beaver dolphin otter seal whale",
    "fish": "aquarium_fish flatfish ray shark trout",
    "flowers": "orchid poppy rose sunflower tulip",
    "food_containers": "bottle bowl can cup plate",
    "fruit_and_vegetables": "apple mushroom orange pear sweet_pepper",
    "household_electrical_devices": "clock keyboard lamp telephone television",
    "household_furniture": "bed chair couch table wardrobe",
    "insects": "bee beetle butterfly caterpillar cockroach",
    "large_carnivores": "bear leopard lion tiger wolf",
    "large_man-made_outdoor_things": "bridge castle house road skyscraper",
    "large_natural_outdoor_scenes": "cloud forest mountain plain sea",
    "large_omnivores_and_herbivores": "camel cattle chimpanzee elephant kangaroo",
    "medium_mammals": "fox porcupine possum raccoon skunk",
    "non-insect_invertebrates": "crab lobster snail spider worm",
    "people": "baby boy girl man woman",
    "reptiles": "crocodile dinosaur lizard snake turtle",
    "small_mammals": "hamster mouse rabbit shrew squirrel",
    "trees": "maple_tree oak_tree palm_tree pine_tree willow_tree",
    "vehicles_1": "bicycle bus motorcycle pickup_truck train",
    "vehicles_2": "lawn_mower rocket streetcar tank tractor",
}
NAMES = tuple(sorted(name for members in SUPERCLASSES.values() for name in members.split()))

MOST_ALIKE = 100  # of the 4,950 pairs


@dataclass(frozen=True)
class Score:
    """The four measures of a label source."""

    eps: float
    f1: float  # (a) of the grouped pairs, compared with the paper's
    pairs: int  # number of grouped pairs
    inside: float  # (b) the share of grouped pairs within one superclass; 1 if there are none
    looks: float | None  # (c) Spearman correlation over all P pairs; None without visual similarities
    alike: float | None  # (d) average precision at finding the most similar pairs; None without visual similarities
    groups: tuple[tuple[str, ...], ...]  # groups of more than one class


def score(source: LabelSource, eps: float | None = None, looks: Path | None = None, rule: Rule | None = None) -> Score:
    """Return the measures of a label source.

    ``looks`` is a file of visual similarities (100, 100) written by ``scripts/train_looks.py``.
    """
    similarity = None if looks is None else read_looks(looks)
    embeddings = source.vectors(NAMES)
    groups = group_classes(embeddings, eps, rule)
    members = tuple(names for names in groups.members if len(names) > 1)
    found, expected = pairs_of(members), pairs_of(PAPER_GROUPS)
    related = pairs_of(line.split() for line in SUPERCLASSES.values())
    cosines = embeddings.matrix @ embeddings.matrix.T
    return Score(
        eps=groups.eps,
        f1=pair_f1(found, expected),
        pairs=len(found),
        inside=len(found & related) / len(found) if found else 1.0,
        looks=None if similarity is None else rank_correlation(cosines, similarity),
        alike=None if similarity is None else average_precision(cosines, similarity, MOST_ALIKE),
        groups=members,
    )


def pairs_of(groups: Iterable[Sequence[str]]) -> set[Pair]:
    """Return all pairs of names within a group."""
    return {frozenset(pair) for members in groups for pair in combinations(members, 2)}


def pair_f1(found: set[Pair], expected: set[Pair]) -> float:
    """Return the F1 score of the found pairs."""
    total = len(found) + len(expected)
    return 2 * len(found & expected) / total if total else 1.0


def rank_correlation(cosines: NDArray[np.float32], looks: NDArray[np.float64]) -> float:
    """Return the Spearman correlation of two similarities (K, K) over the P pairs of different classes."""
    from scipy.stats import spearmanr

    upper = np.triu_indices(len(cosines), 1)
    return float(spearmanr(cosines[upper], looks[upper]).statistic)


def average_precision(cosines: NDArray[np.float32], looks: NDArray[np.float64], count: int) -> float:
    """Return the average precision of cosines (K, K) at ranking the ``count`` pairs of the highest ``looks`` first."""
    from sklearn.metrics import average_precision_score

    upper = np.triu_indices(len(cosines), 1)
    wanted = looks[upper] >= np.sort(looks[upper])[-count]
    return float(average_precision_score(wanted, cosines[upper]))


def read_looks(path: Path) -> NDArray[np.float64]:
    """Read the visual similarity (100, 100) of CIFAR-100's classes, in the alphabetical order of their names."""
    with open_regular(path) as stream:
        try:
            looks = read_npy(stream, path.stat().st_size)
        except ValueError as error:
            raise UserError(f"{path} cannot be read as .npy ({error}); make it with scripts/train_looks.py.") from None
    if looks.dtype.kind not in "fiu" or looks.shape != (len(NAMES), len(NAMES)) or not np.isfinite(looks).all():
        raise UserError(
            f"{path} is {looks.dtype} {looks.shape}, not a finite {len(NAMES)} x {len(NAMES)} matrix; make it with"
            " scripts/train_looks.py."
        )
    return looks.astype(np.float64)
