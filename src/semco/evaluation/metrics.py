"""Numbers that say how good a classifier is: pure functions of probabilities and truth.

Shapes: N images, K classes, Q label groups. ``probabilities`` is (N, K), rows sum to 1; ``predicted``
and ``truth`` are (N,) class indices, ``groups`` is (K,) with the group of each class.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating]
Ints = NDArray[np.integer]


def accuracy(probabilities: Floats, truth: Ints) -> float:
    """Part of the images whose most probable class is the true one."""
    return top_k_accuracy(probabilities, truth, k=1)


def top_k_accuracy(probabilities: Floats, truth: Ints, k: int) -> float:
    """Part of the images whose true class is among the ``min(k, K)`` most probable ones.

    Equal probabilities are ranked by class index, as `argmax` does, so ``k=1`` is the accuracy of `argmax`.
    """
    assert len(truth) > 0, "no images to judge"
    return float(np.mean(_rank_of_truth(probabilities, truth) < k))


def _rank_of_truth(probabilities: Floats, truth: Ints) -> Ints:
    """(N,) how many classes come before the true one."""
    own = probabilities[np.arange(len(truth)), truth][:, None]  # (N, 1)
    earlier = np.arange(probabilities.shape[1])[None] < truth[:, None]  # (N, K)
    rank: Ints = ((probabilities > own) | ((probabilities == own) & earlier)).sum(axis=1)
    return rank


def confusion_matrix(predicted: Ints, truth: Ints, num_classes: int) -> Ints:
    """(K, K) counts: row = true class, column = predicted class."""
    cells = np.bincount(truth * num_classes + predicted, minlength=num_classes**2)
    return cells.reshape(num_classes, num_classes)


def per_class_accuracy(confusion: Ints) -> list[float | None]:
    """Recall of each class; None for a class without images."""
    return [_ratio(int(row[k]), int(row.sum())) for k, row in enumerate(confusion)]


def per_class_precision(confusion: Ints) -> list[float | None]:
    """How often a predicted class is right; None for a class that is never predicted."""
    return [_ratio(int(column[k]), int(column.sum())) for k, column in enumerate(confusion.T)]


def per_group_accuracy(confusion: Ints, groups: Ints) -> list[float | None]:
    """Of each group's images, the part given *some* class of that group; None for a group without images."""
    members = _assignment(groups)  # (K, Q)
    grouped = members.T @ confusion @ members  # (Q, Q)
    return per_class_accuracy(grouped)


def group_accuracy(confusion: Ints, groups: Ints) -> float:
    """Part of all images that are given a class of the right group."""
    members = _assignment(groups)
    grouped = members.T @ confusion @ members
    return float(np.trace(grouped) / grouped.sum())


def _assignment(groups: Ints) -> Ints:
    """(K, Q) one where a class belongs to a group."""
    members: Ints = (groups[:, None] == np.arange(int(groups.max()) + 1)[None]).astype(np.int64)
    return members


def expected_calibration_error(probabilities: Floats, truth: Ints, bins: int = 15) -> float:
    """Mean gap of confidence and accuracy over equal-width bins ``(low, high]`` (Guo et al. 2017, eq. 3)."""
    confidence = probabilities.max(axis=1)
    correct = probabilities.argmax(axis=1) == truth
    which = np.clip(np.ceil(confidence * bins).astype(int) - 1, 0, bins - 1)
    gap = np.bincount(which, weights=correct - confidence, minlength=bins)  # sums: weighted by size
    return float(np.abs(gap).sum() / len(truth))


def _ratio(part: int, whole: int) -> float | None:
    return part / whole if whole else None
