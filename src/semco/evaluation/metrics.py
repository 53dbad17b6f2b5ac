"""Metrics of a classifier: pure functions of probabilities and true classes.

Shapes: N images, K classes, Q label groups. ``probabilities`` is (N, K), rows sum to 1; ``predicted`` and ``truth``
are (N,) class ids; ``group_ids`` is (K,), the group of each class.
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


Floats = NDArray[np.floating]


def accuracy(probabilities: Floats, truth: Ints) -> float:
    """Return the fraction of the images whose most probable class is the true one."""
    return top_k_accuracy(probabilities, truth, k=1)


def top_k_accuracy(probabilities: Floats, truth: Ints, k: int) -> float:
    """Return the fraction of the images whose true class is among the ``min(k, K)`` most probable ones.

    Equal probabilities are ranked by class id, as `argmax` does, so ``k=1`` is the accuracy of `argmax`.
    """
    assert len(truth) > 0, "there are no images"
    return float(np.mean(_rank_of_truth(probabilities, truth) < k))


def _rank_of_truth(probabilities: Floats, truth: Ints) -> Ints:
    """Return how many classes rank before the true one (N,)."""
    own = probabilities[np.arange(len(truth)), truth][:, None]  # (N, 1)
    earlier = np.arange(probabilities.shape[1])[None] < truth[:, None]  # (N, K)
    rank: Ints = ((probabilities > own) | ((probabilities == own) & earlier)).sum(axis=1)
    return rank


def per_class_accuracy(confusion: Confusion) -> list[float | None]:
    """Return the recall of each class; None for a class without images."""
    return _ratios(confusion.correct, confusion.images)


def per_class_precision(confusion: Confusion) -> list[float | None]:
    """Return the precision of each class; None for a class that is never predicted."""
    return _ratios(confusion.correct, confusion.predictions)


def per_group_accuracy(confusion: Confusion, group_ids: Ints) -> list[float | None]:
    """Return the fraction of each group's images that are given any class of the group; None without images."""
    return per_class_accuracy(confusion.of_groups(group_ids))


def group_accuracy(confusion: Confusion, group_ids: Ints) -> float:
    """Return the fraction of all images that are given a class of the correct group."""
    return float(confusion.of_groups(group_ids).correct.sum() / confusion.counts.sum())


def reliability(probabilities: Floats, truth: Ints, bins: int = 15) -> NDArray[np.float64]:
    """Return images, sum of confidences and number of correct images (bins, 3) of equal bins ``(low, high]``."""
    confidence = probabilities.max(axis=1).astype(np.float64)
    correct = probabilities.argmax(axis=1) == truth
    bin_index = np.clip(np.ceil(confidence * bins).astype(int) - 1, 0, bins - 1)
    columns = (np.ones_like(confidence), confidence, correct)
    return np.stack([np.bincount(bin_index, weights=column, minlength=bins) for column in columns], axis=1)


def expected_calibration_error(probabilities: Floats, truth: Ints, bins: int = 15) -> float:
    """Return the mean gap between confidence and accuracy over equal bins ``(low, high]`` (Guo et al. 2017, Eq. 3)."""
    _, confidence, correct = reliability(probabilities, truth, bins).T  # sums, so bins count by their size
    return float(np.abs(correct - confidence).sum() / len(truth))


def _ratios(parts: Ints, wholes: Ints) -> list[float | None]:
    return [part / whole if whole else None for part, whole in zip(parts.tolist(), wholes.tolist(), strict=True)]
