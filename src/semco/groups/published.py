"""How well groups of classes agree with published ones: precision, recall and F1 over pairs of classes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations

from semco.data.names import simplify_name

Pair = frozenset[str]


@dataclass(frozen=True)
class GroupScores:
    """Agreement of the pairs of classes that share a group."""

    precision: float | None  # None: no pair was found
    recall: float | None  # None: no pair was published
    f1: float
    right: int  # pairs that were found and are published
    found: int
    published: int


def pairs_of(groups: Iterable[Sequence[str]]) -> set[Pair]:
    """Return all pairs of names within a group."""
    return {frozenset(pair) for members in groups for pair in combinations(members, 2)}


def score_groups(found: Sequence[Sequence[str]], published: Sequence[Sequence[str]]) -> GroupScores:
    """Compare the groups that were found with published ones; underscores and spaces are alike."""
    ours, theirs = ({frozenset(map(simplify_name, pair)) for pair in pairs_of(groups)} for groups in (found, published))
    both = len(ours & theirs)
    return GroupScores(
        both / len(ours) if ours else None,
        both / len(theirs) if theirs else None,
        2 * both / (len(ours) + len(theirs)) if ours or theirs else 1.0,
        both,
        len(ours),
        len(theirs),
    )
