"""Whether training from loaded weights beats the linear probe, where there are too few labels to hold some out.

The labelled images are divided into folds. For each fold the run is repeated without the labels of the fold, and both
the trained network and a probe on the remaining labels predict it.

Shapes: N labelled images.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from semco.config import Config

# A fold costs as much as the run. The heads alone are trained in seconds.
FOLDS = {"heads": 3, "top": 2, "all": 0}


@dataclass(frozen=True)
class Comparison:
    """Which labelled images were predicted rightly while their labels were held out."""

    trained: NDArray[np.bool_]  # (N,)
    probe: NDArray[np.bool_]  # (N,)

    @property
    def trained_accuracy(self) -> float:
        return float(self.trained.mean())

    @property
    def probe_accuracy(self) -> float:
        return float(self.probe.mean())

    def is_probe_better(self) -> bool:
        """Return whether the probe is better by more than one standard deviation of the difference.

        If both were equally good, each image that only one of them gets right would be either's with equal chance, so
        the difference of their numbers would vary by the square root of the number of such images.
        """
        only_probe = int((self.probe & ~self.trained).sum())
        only_trained = int((self.trained & ~self.probe).sum())
        return only_probe - only_trained > math.sqrt(only_probe + only_trained)


def number_of_folds(config: Config, class_ids: NDArray[np.int64]) -> int:
    """Return into how many folds the labels are divided; 0 if a class has too few, or it would take too long."""
    folds = FOLDS[config.model.tune]
    fewest = int(np.unique(class_ids, return_counts=True)[1].min())
    return folds if 2 <= folds <= fewest else 0


def fold_positions(class_ids: NDArray[np.int64], folds: int, seed: int) -> list[NDArray[np.int64]]:
    """Return the positions of each fold among the labelled images (N,), with about equal parts of every class."""
    from sklearn.model_selection import StratifiedKFold  # takes a second to import

    splits = StratifiedKFold(folds, shuffle=True, random_state=seed % 2**32)
    return [held_out for _, held_out in splits.split(np.zeros(len(class_ids)), class_ids)]
