"""The scale s of the semantic head's class scores p = softmax(s cos(q, M)).

Shapes: K classes, d embedding size, Q groups, n rows at a time.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor

from semco.errors import SemcoWarning, UserError
from semco.types import Task

# With a larger scale an untrained head would look confident; two rows of M that need it are practically the same.
LARGEST_SCALE = 200.0
# Rows of M at a time, and at most: all K x K scores of 10,000 classes would take gigabytes and minutes.
ROWS, MOST_ROWS = 512, 2048


# The factor of the authors' released code: a polynomial in the number of groups that they fitted.
AUTHORS = (9.170736802898897, 8.61367218e-02, -2.14301427e-04, 2.64062187e-07, -1.48480191e-10, 3.06355814e-14)


def choose_scale(scale: float | Literal["solved", "authors"], perfect_score: float, task: Task) -> float:
    """Return the configured scale, the one at which perfect predictions score ``perfect_score``, or the authors'."""
    if scale == "authors":
        return authors_scale(int(task.group_ids.max()) + 1)
    if scale == "solved":
        return solve_scale(task.label_vectors, task.group_ids, perfect_score, task.class_names)
    return scale


def authors_scale(groups: int) -> float:
    """Return the factor of the cosines in the authors' released code for a number of groups."""
    if groups < 10:
        return 6.0
    if groups < 13:
        return 8.0 + (groups - 10) / 3
    if groups < 17:
        return 9.0 + (groups - 13) / 4
    return sum(coefficient * float(groups) ** power for power, coefficient in enumerate(AUTHORS))


def solve_scale(label_vectors: Tensor, group_ids: Tensor, perfect_score: float, class_names: Sequence[str]) -> float:
    """Return s such that perfect predictions q = M[k], over all k, get ``perfect_score`` as their mean group score.

    M (K, d) with unit rows, group of each class (K,). If the groups are so large that even s = 0 scores that much (a
    single group, for example), single classes are used instead, with a warning.
    """
    from scipy.optimize import brentq

    if mean_group_score(0.0, label_vectors, group_ids) >= perfect_score:
        warnings.warn(
            f"{int(group_ids.max()) + 1} group(s) over {len(group_ids)} classes leave little to tell apart, so the "
            "similarity scale is solved on single classes; a smaller labels.eps makes smaller groups.",
            SemcoWarning,
            stacklevel=2,
        )
        group_ids = torch.arange(len(group_ids))
    if mean_group_score(LARGEST_SCALE, label_vectors, group_ids) < perfect_score:
        raise UserError(_closest_pair_error(label_vectors, group_ids, perfect_score, class_names))
    return float(
        brentq(lambda s: mean_group_score(s, label_vectors, group_ids) - perfect_score, 0.0, LARGEST_SCALE, xtol=1e-9)
    )


def mean_group_score(scale: float, label_vectors: Tensor, group_ids: Tensor) -> float:
    """Return the mean over k of the score that the group of k gets from q = M[k]; M (K, d) with unit rows.

    Of many classes, k takes an evenly spaced part.
    """
    every, total = label_vectors.double(), 0.0
    chosen = torch.arange(0, len(every), -(-len(every) // MOST_ROWS))
    for part in chosen.split(ROWS):
        scores = (scale * (every[part] @ every.T)).softmax(dim=-1)  # (n, K)
        total += float((scores * (group_ids[part, None] == group_ids)).sum())
    return total / len(chosen)


def _closest_pair_error(
    label_vectors: Tensor, group_ids: Tensor, perfect_score: float, class_names: Sequence[str]
) -> str:
    """Name the closest pair of classes in different groups, which makes the scale impossible."""
    cosines = label_vectors.double() @ label_vectors.double().T
    apart = cosines.masked_fill(group_ids[:, None] == group_ids[None, :], -2.0)
    first, second = divmod(int(apart.argmax()), len(group_ids))
    return (
        f"no similarity scale up to {LARGEST_SCALE:g} gives perfect predictions a mean group score of "
        f"{perfect_score:g}, because {class_names[first]!r} and {class_names[second]!r} have nearly the same vector "
        "but different groups: raise labels.eps, give one of them an alias, or set method.scale, for example to 10."
    )
