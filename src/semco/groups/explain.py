"""What a person should look at before training: doubtful names, groups with their cosines, and what joins next.

Two groups join at the eps that is the smallest cosine distance of their classes (single linkage). A group splits below
the eps at which its last two parts were joined.

Shapes: K classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from semco.groups.grouping import Groups
from semco.labels.embeddings import LabelEmbeddings
from semco.labels.eps import distances
from semco.labels.matching.routes import CONFIDENCE, LOW_CONFIDENCE, OWN_VECTOR
from semco.labels.matching.spelling import spell

NEXT = 12  # groups that would join next, shown
CLOSE = 0.1  # a group that splits at an eps smaller by a tenth is doubtful

Square = NDArray[np.float64]


@dataclass(frozen=True)
class Pair:
    """Two classes and the cosine of their vectors."""

    names: tuple[str, str]
    cosine: float


@dataclass(frozen=True)
class ReviewedGroup:
    """A group of several classes."""

    members: tuple[str, ...]
    pairs: tuple[Pair, ...]  # the weakest first
    splits_below: float  # eps
    is_doubtful: bool


@dataclass(frozen=True)
class Join:
    """Two groups that would be one at a larger eps."""

    parts: tuple[tuple[str, ...], tuple[str, ...]]
    pair: Pair  # decides at which eps
    joins_at: float  # eps


@dataclass(frozen=True)
class Name:
    """A class name and the term that was found for it."""

    name: str
    term: str
    route: str
    nearest: str  # the nearest other class, "" if there is none or the vector means nothing
    is_doubtful: bool


@dataclass(frozen=True)
class Review:
    """Everything that the page of `semco labels groups --page` shows."""

    names: tuple[Name, ...]  # doubtful names first
    groups: tuple[ReviewedGroup, ...]  # doubtful groups first
    joins: tuple[Join, ...]  # the nearest first
    corrected: bool  # a person put classes together or apart


def review(embeddings: LabelEmbeddings, groups: Groups) -> Review:
    """Return what to look at in the groups of some classes."""
    between = distances(embeddings.matrix)
    members = [np.flatnonzero(groups.group_ids == q).tolist() for q in range(groups.count)]
    found = [_reviewed(embeddings, groups, between, one) for one in members if len(one) > 1]
    joins = _joins(embeddings, groups, between, members)
    return Review(
        names=tuple(sorted(_names(embeddings, between), key=lambda one: not one.is_doubtful)),
        groups=tuple(sorted(found, key=lambda one: (not one.is_doubtful, -one.splits_below))),
        joins=joins,
        corrected=any(one.splits_below > groups.eps for one in found) or any(j.joins_at <= groups.eps for j in joins),
    )


def _reviewed(embeddings: LabelEmbeddings, groups: Groups, between: Square, members: Sequence[int]) -> ReviewedGroup:
    ordered = sorted(combinations(members, 2), key=lambda pair: -between[pair])
    splits = _last_merge(between[np.ix_(members, members)])
    pairs = tuple(_pair(embeddings, *pair) for pair in ordered)
    return ReviewedGroup(tuple(groups.names[i] for i in members), pairs, splits, splits > (1 - CLOSE) * groups.eps)


def _last_merge(between: Square) -> float:
    """Return the eps at which the last two parts of a group are joined, given its distances."""
    from scipy.cluster.hierarchy import linkage
    from scipy.spatial.distance import squareform

    return float(linkage(squareform(between, checks=False), method="single")[-1, 2])


def _joins(
    embeddings: LabelEmbeddings, groups: Groups, between: Square, members: Sequence[Sequence[int]]
) -> tuple[Join, ...]:
    """Return the groups that would join next."""
    if len(members) < 2:
        return ()
    starts = np.cumsum([0, *map(len, members)])[:-1]
    order = np.concatenate([np.asarray(one) for one in members])
    sorted_distances = between[np.ix_(order, order)]
    heights = np.minimum.reduceat(np.minimum.reduceat(sorted_distances, starts, axis=0), starts, axis=1)  # (Q, Q)
    rows, columns = np.triu_indices(len(members), 1)
    nearest = np.argsort(heights[rows, columns], kind="stable")[:NEXT]
    found = []
    for a, b in zip(rows[nearest].tolist(), columns[nearest].tolist(), strict=True):
        block = between[np.ix_(members[a], members[b])]
        i, j = np.argwhere(block == heights[a, b])[0].tolist()
        pair = _pair(embeddings, members[a][i], members[b][j])
        parts = tuple(groups.names[k] for k in members[a]), tuple(groups.names[k] for k in members[b])
        found.append(Join(parts, pair, float(heights[a, b])))
    return tuple(found)


def _pair(embeddings: LabelEmbeddings, i: int, j: int) -> Pair:
    return Pair((embeddings.names[i], embeddings.names[j]), float(embeddings.matrix[i] @ embeddings.matrix[j]))


def _names(embeddings: LabelEmbeddings, between: Square) -> list[Name]:
    others = between + np.diag(np.full(len(between), np.inf))
    found = []
    for i, (name, term, route) in enumerate(zip(embeddings.names, embeddings.terms, embeddings.routes, strict=True)):
        is_noted = any(f"class {name!r}" in note for note in embeddings.notes)
        how = route.split(", ")[0]
        confidence = CONFIDENCE.get(how, 1.0)  # other sources have rows, not routes
        nearest = "" if len(between) < 2 or how == OWN_VECTOR else embeddings.names[int(others[i].argmin())]
        found.append(Name(name, term, route, nearest, is_noted or confidence <= LOW_CONFIDENCE))
    return found


def groups_summary(embeddings: LabelEmbeddings, groups: Groups) -> dict[str, Any]:
    """Return eps, the class names of each group, and the term and route of each class."""
    matched = zip(embeddings.names, embeddings.terms, embeddings.routes, strict=True)
    cosines = {", ".join(members): lowest_cosine(embeddings, members) for members in shared_groups(groups)}
    return {
        "eps": groups.eps,
        "groups": [list(members) for members in groups.members],
        "lowest_cosine": cosines,
        "terms": {name: {"term": term, "route": route} for name, term, route in matched},
    }


def lowest_cosine(embeddings: LabelEmbeddings, members: Sequence[str]) -> float:
    """Return the lowest cosine of two classes of a group, which may be a chain."""
    rows = embeddings.matrix[[embeddings.names.index(name) for name in members]]
    return round(float((rows @ rows.T).min()), 4)


def other_terms(embeddings: LabelEmbeddings) -> list[tuple[str, str, str]]:
    """Return the name, term and route of the classes whose term is spelt differently from the name."""
    matched = zip(embeddings.names, embeddings.terms, embeddings.routes, strict=True)
    return [row for row in matched if "+" in row[1] or spell(row[0]) != spell(row[1])]


def shared_groups(groups: Groups) -> list[tuple[str, ...]]:
    """Return the class names of each group with more than one class."""
    return [members for members in groups.members if len(members) > 1]
