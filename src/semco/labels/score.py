"""How good are label vectors? Four measures on the 100 names of CIFAR-100.

(a) agreement with the paper's table of groups, (b) whether grouped classes belong to one superclass, (c) whether
names that are near belong to classes that look alike to a trained network, over all pairs, and (d) over the pairs that
matter to grouping: do the most alike come first?

Shapes: K = 100 classes, P = K (K - 1) / 2 pairs of classes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from semco.errors import UserError
from semco.labels.embeddings import LabelSource
from semco.labels.groups import group

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

# Krizhevsky 2009: twenty superclasses of five.
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

MOST_ALIKE = 100  # pairs of the 4,950


@dataclass(frozen=True)
class Score:
    """The measures, and what they were taken on."""

    eps: float
    f1: float  # (a) of the pairs grouped together, against the paper's
    pairs: int  # pairs grouped together
    inside: float  # (b) the share of them inside one superclass; 1 where there are none
    looks: float | None  # (c) Spearman correlation over all P pairs; None without a file of looks
    alike: float | None  # (d) average precision at finding the pairs that look most alike; None likewise
    groups: tuple[tuple[str, ...], ...]  # those of more than one class


def score(source: LabelSource, eps: float | Literal["auto"] = "auto", looks: Path | None = None) -> Score:
    """Measure a source of vectors; ``looks`` is a (100, 100) .npy made by ``scripts/train_looks.py``."""
    similarity = None if looks is None else read_looks(looks)
    embeddings = source.vectors(NAMES)
    groups = group(embeddings, eps)
    members = tuple(names for names in groups.members if len(names) > 1)
    found, wanted = pairs_of(members), pairs_of(PAPER_GROUPS)
    related = pairs_of(line.split() for line in SUPERCLASSES.values())
    cosines = embeddings.matrix @ embeddings.matrix.T
    return Score(
        eps=groups.eps,
        f1=pair_f1(found, wanted),
        pairs=len(found),
        inside=len(found & related) / len(found) if found else 1.0,
        looks=None if similarity is None else agreement(cosines, similarity),
        alike=None if similarity is None else precision(cosines, similarity, MOST_ALIKE),
        groups=members,
    )


def pairs_of(groups: Iterable[Sequence[str]]) -> set[Pair]:
    """All pairs of names that share a group."""
    return {frozenset(pair) for members in groups for pair in combinations(members, 2)}


def pair_f1(found: set[Pair], wanted: set[Pair]) -> float:
    """Harmonic mean of precision and recall over pairs."""
    total = len(found) + len(wanted)
    return 2 * len(found & wanted) / total if total else 1.0


def agreement(cosines: NDArray[np.float32], looks: NDArray[np.float64]) -> float:
    """Spearman correlation of two (K, K) similarities over the P pairs of different classes."""
    from scipy.stats import spearmanr

    upper = np.triu_indices(len(cosines), 1)
    return float(spearmanr(cosines[upper], looks[upper]).statistic)


def precision(cosines: NDArray[np.float32], looks: NDArray[np.float64], count: int) -> float:
    """Average precision of the cosines (K, K) at ranking the ``count`` pairs of the highest ``looks`` (K, K) first."""
    from sklearn.metrics import average_precision_score

    upper = np.triu_indices(len(cosines), 1)
    wanted = looks[upper] >= np.sort(looks[upper])[-count]
    return float(average_precision_score(wanted, cosines[upper]))


def read_looks(path: Path) -> NDArray[np.float64]:
    """A (100, 100) similarity of how classes look, in the alphabetical order of their names."""
    try:
        looks: NDArray[np.float64] = np.load(path, allow_pickle=False).astype(np.float64)
    except (OSError, ValueError, EOFError, AttributeError) as error:
        raise UserError(f"{path} cannot be read as .npy ({error}); make it with scripts/train_looks.py.") from None
    if looks.shape != (len(NAMES), len(NAMES)) or not np.isfinite(looks).all():
        raise UserError(f"{path} is {looks.shape}, not a finite {len(NAMES)} x {len(NAMES)} matrix of CIFAR-100.")
    return looks
