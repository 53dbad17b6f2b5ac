"""Metrics of a classifier: pure functions of probabilities and true classes.

Shapes: N images, K classes, Q label groups. ``probabilities`` is (N, K), rows sum to 1; ``predicted`` and ``truth``
are (N,) class ids; ``group_ids`` is (K,), the group of each class.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from semco.evaluation.confusion import Confusion

Floats = NDArray[np.floating]
Ints = NDArray[np.integer]


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
