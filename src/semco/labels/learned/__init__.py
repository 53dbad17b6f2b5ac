"""Groups by names and by what a model confuses (``labels.groups=learned``).

The groups of the names are the prior. A model's own confusion corrects it: classes that the model often takes for each
other are merged, and classes of one group that it never takes for each other are split. The result depends on the
names and on the confusion, not on groups that were learned before.

Shapes: K classes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from semco.labels.groups import Pairs, correct_group_ids, in_order, link_completely

Ids = NDArray[np.int64]
Floats = NDArray[np.float64]

# Images (weighted, recent ones) that a class must have been given before its row of the confusion counts.
FEWEST_OBSERVATIONS = 20.0
# Mutual confusion (`mutual_confusion`) from which on classes of different names are merged, and up to which classes
# that the names put together are split.
MERGE, SPLIT = 0.2, 0.02
# Closeness of two classes that were not measured and that the names put together; 1 is enough to share a group.
BY_NAME = 2.0
SMALLEST = 1e-12  # avoids 0 / 0 for a class that is never recognised


def learned_group_ids(
    named_ids: Ids, confusion: Floats, names: Sequence[str], together: Pairs = (), apart: Pairs = ()
) -> Ids:
    """Return the group ids (K,), from those of the names (K,) and sums of probabilities (K, K) by given class.

    Complete linkage: every two classes of a group have a `closeness` of at least 1. What a person has put together or
    apart stays so.
    """
    if len(named_ids) < 3:  # confusion with one class cannot stand out from the confusion with the others
        return named_ids.copy()
    distance = 1 / (1 + closeness(named_ids, confusion))  # 1/2 where the closeness is 1
    np.fill_diagonal(distance, 0)
    found = link_completely(names, distance, 0.5)
    return in_order(correct_group_ids(found, names, together, apart))


def closeness(named_ids: Ids, confusion: Floats) -> Floats:
    """Return how close each two classes are (K, K): 1 or more is enough to share a group.

    It is their mutual confusion in units of `SPLIT` where the names put them together, and of `MERGE` where they do
    not. Where one of the two has too few observations, the names decide.
    """
    is_named = named_ids[:, None] == named_ids[None, :]
    is_measured = confusion.sum(axis=1) >= FEWEST_OBSERVATIONS
    by_confusion = mutual_confusion(confusion) / np.where(is_named, SPLIT, MERGE)
    return np.where(is_measured[:, None] & is_measured[None, :], by_confusion, np.where(is_named, BY_NAME, 0.0))


def mutual_confusion(confusion: Floats) -> Floats:
    """Return how much probability two classes give each other, relative to what they give themselves: (K, K).

    Only what exceeds the mean over the other wrong classes counts: a model that knows nothing confuses no pair.
    """
    shares = confusion / np.maximum(confusion.sum(axis=1, keepdims=True), SMALLEST)
    own = shares.diagonal()
    elsewhere = (1 - own[:, None] - shares) / (len(shares) - 2)
    excess = np.maximum(shares - elsewhere, 0)
    mutual: Floats = (excess + excess.T) / np.maximum(own[:, None] + own[None, :], SMALLEST)
    return mutual


def describe_change(names: Sequence[str], old: Ids, new: Ids) -> str:
    """Return which classes were merged and split, such as "merged cat, dog; split oak, ship"; "" for no change.

    Merged are groups with classes that were in different groups, split are old groups whose classes no longer share
    one.
    """
    merged = [group for group in _members(new) if len({old[i] for i in group}) > 1]
    split = [group for group in _members(old) if len({new[i] for i in group}) > 1]
    parts = [("merged", merged), ("split", split)]
    return "; ".join(f"{verb} {', '.join(names[i] for i in group)}" for verb, groups in parts for group in groups)


def _members(ids: Ids) -> list[list[int]]:
    return [np.flatnonzero(ids == group_id).tolist() for group_id in np.unique(ids)]
