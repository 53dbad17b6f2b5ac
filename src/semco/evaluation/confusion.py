"""The confusion matrix of a classifier, by its cells that are not zero: with 10,000 classes it has 100 million cells.

Shapes: N images, K classes, Q label groups, c cells that are not zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.integer]


@dataclass(frozen=True)
class Confusion:
    """How often images of a true class were given a predicted class."""

    truth: Ints  # (c,) class ids, ascending
    predicted: Ints  # (c,) class ids, ascending for each true class
    counts: Ints  # (c,) above zero
    num_classes: int

    @property
    def images(self) -> Ints:
        """The number of images of each class (K,)."""
        return self._sums(self.truth)

    @property
    def predictions(self) -> Ints:
        """How often each class was predicted (K,)."""
        return self._sums(self.predicted)

    @property
    def correct(self) -> Ints:
        """The number of images of each class that were given this class (K,)."""
        return self._sums(self.truth, self.truth == self.predicted)

    def _sums(self, class_ids: Ints, chosen: NDArray[np.bool_] | slice = slice(None)) -> Ints:
        sums: Ints = np.zeros(self.num_classes, dtype=np.int64)
        np.add.at(sums, class_ids[chosen], self.counts[chosen])
        return sums

    def of_groups(self, group_ids: Ints) -> Confusion:
        """Return the confusion of the label groups; ``group_ids`` (K,) are the groups of the classes."""
        return _collect(group_ids[self.truth], group_ids[self.predicted], self.counts, int(group_ids.max()) + 1)

    def mistakes(self) -> list[tuple[int, int, int]]:
        """Return true class, predicted class and count of every mistake, the most common first."""
        wrong = np.flatnonzero(self.truth != self.predicted)
        order = wrong[np.argsort(-self.counts[wrong], kind="stable")]
        columns = (self.truth[order], self.predicted[order], self.counts[order])
        return list(zip(*(column.tolist() for column in columns), strict=True))

    def dense(self) -> Ints:
        """Return the whole matrix (K, K): rows are true classes, columns predicted ones."""
        matrix: Ints = np.zeros((self.num_classes, self.num_classes), dtype=np.int64)
        matrix[self.truth, self.predicted] = self.counts
        return matrix

    def to_json(self) -> dict[str, Any]:
        return {
            "truth": self.truth.tolist(),
            "predicted": self.predicted.tolist(),
            "counts": self.counts.tolist(),
        }


def confusion_of(predicted: Ints, truth: Ints, num_classes: int) -> Confusion:
    """Return the confusion of predicted and true class ids (N,)."""
    return _collect(truth, predicted, np.ones(len(truth), dtype=np.int64), num_classes)


def confusion_from_json(values: Any, num_classes: int) -> Confusion | None:
    """Return what `Confusion.to_json` wrote; None if it is something else."""
    try:
        truth, predicted, counts = (np.asarray(values[name], np.int64) for name in ("truth", "predicted", "counts"))
    except (KeyError, TypeError, ValueError, OverflowError):  # the last three: text, ragged lists and huge numbers
        return None
    ids = np.concatenate([truth, predicted])
    if counts.shape != truth.shape or counts.shape != predicted.shape or ((ids < 0) | (ids >= num_classes)).any():
        return None
    return _collect(truth, predicted, counts, num_classes)


def _collect(truth: Ints, predicted: Ints, counts: Ints, num_classes: int) -> Confusion:
    """Add up the counts of equal cells."""
    cells, place = np.unique(truth * num_classes + predicted, return_inverse=True)
    sums = np.zeros(len(cells), dtype=np.int64)
    np.add.at(sums, place, counts)
    return Confusion(cells // num_classes, cells % num_classes, sums, num_classes)
