"""The scale s of the semantic head's class scores p = softmax(s * cos(q, M)).

Shapes: K classes, d embedding size, Q label groups, n rows at a time.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import torch
from scipy.optimize import brentq
from torch import Tensor

from semco.errors import UserError

# Beyond this two rows of M are the same for practical purposes, and an untrained head would look confident.
LARGEST_SCALE = 200.0
# Rows of M at a time: all K x K scores of 10,000 classes would be gigabytes.
ROWS = 512


def solve_scale(matrix: Tensor, groups: Tensor, perfect_score: float, class_names: Sequence[str]) -> float:
    """s such that perfect predictions q = M[k], over all k, get ``perfect_score`` as their mean group score.

    M (K, d) with unit rows, group of each class (K,). Where the groups are so large that even s = 0 scores
    that much (one group in all, say), single classes take their place, with a warning.
    """
    if mean_group_score(0.0, matrix, groups) >= perfect_score:
        warnings.warn(
            f"{int(groups.max()) + 1} label group(s) over {len(groups)} classes leave little to tell apart, "
            "so the similarity scale is solved on single classes; a smaller labels.eps makes smaller groups.",
            stacklevel=2,
        )
        groups = torch.arange(len(groups))
    if mean_group_score(LARGEST_SCALE, matrix, groups) < perfect_score:
        raise UserError(_unreachable(matrix, groups, perfect_score, class_names))
    return float(brentq(lambda s: mean_group_score(s, matrix, groups) - perfect_score, 0.0, LARGEST_SCALE, xtol=1e-9))


def mean_group_score(scale: float, matrix: Tensor, groups: Tensor) -> float:
    """Mean over k of the score that the group of k gets from q = M[k]; M (K, d) with unit rows."""
    every, total = matrix.double(), 0.0
    for rows, own in zip(every.split(ROWS), groups.split(ROWS), strict=True):
        scores = (scale * (rows @ every.T)).softmax(dim=-1)  # (n, K)
        total += float((scores * (own[:, None] == groups)).sum())
    return total / len(matrix)


def _unreachable(matrix: Tensor, groups: Tensor, perfect_score: float, class_names: Sequence[str]) -> str:
    """Name the closest pair of classes in different groups, which is what stands in the way."""
    cosines = matrix.double() @ matrix.double().T
    apart = cosines.masked_fill(groups[:, None] == groups[None, :], -2.0)
    first, second = divmod(int(apart.argmax()), len(groups))
    return (
        f"no similarity scale up to {LARGEST_SCALE:g} gives perfect predictions a mean group score of "
        f"{perfect_score:g}, as {class_names[first]!r} and {class_names[second]!r} have nearly the same "
        "vector but different groups: raise labels.eps, alias one of them, or set method.scale to 10, say."
    )
