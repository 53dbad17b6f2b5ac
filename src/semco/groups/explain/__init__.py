"""What a person should look at before training: doubtful names, groups with their evidence, and what is next.

A distance is that of the rule: 2 - evidence, or 1 - cosine for DBSCAN. Two groups join at the eps that is the largest
distance of their classes (complete linkage, "evidence") or the smallest (single linkage, "dbscan"). A group splits
below the eps at which its last two parts were joined.

Shapes: K classes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from semco.groups.grouping import Groups, evidence_distances
from semco.labels.dictionary import dictionary
from semco.labels.distances import distances
from semco.labels.embeddings import LabelEmbeddings
from semco.labels.matching.routes import CONFIDENCE, LOW_CONFIDENCE, OWN_VECTOR

NEXT = 12  # groups that would join next, shown
CLOSE = 0.1  # a group that a tenth less of eps would split is doubtful

Square = NDArray[np.float64]


@dataclass(frozen=True)
class Pair:
    """Two classes, with why they are or are not in one group."""

    names: tuple[str, str]
    cosine: float
    evidence: float | None  # None for the rule "dbscan"
    kind: str  # what both are, "" if the dictionary does not say
    graph: str  # what the graph says, "" if nothing
    captions: float | None = None  # cosine by the captions of photos, None if they do not know both


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
    """Everything that the page of evidence shows."""

    names: tuple[Name, ...]  # doubtful names first
    groups: tuple[ReviewedGroup, ...]  # doubtful groups first
    joins: tuple[Join, ...]  # the nearest first
    corrected: bool  # a person put classes together or apart


def review(embeddings: LabelEmbeddings, groups: Groups) -> Review:
    """Return what to look at in the groups of some classes."""
    between = evidence_distances(embeddings) if groups.rule == "evidence" else distances(embeddings.matrix)
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
    splits = _last_merge(between[np.ix_(members, members)], groups.rule)
    pairs = tuple(_pair(embeddings, groups, *pair) for pair in ordered)
    return ReviewedGroup(tuple(groups.names[i] for i in members), pairs, splits, splits > (1 - CLOSE) * groups.eps)


def _last_merge(between: Square, rule: str) -> float:
    """Return the eps at which the last two parts of a group are joined, given its distances."""
    from scipy.cluster.hierarchy import linkage
    from scipy.spatial.distance import squareform

    merges = linkage(squareform(between, checks=False), method="complete" if rule == "evidence" else "single")
    return float(merges[-1, 2])


def _joins(
    embeddings: LabelEmbeddings, groups: Groups, between: Square, members: Sequence[Sequence[int]]
) -> tuple[Join, ...]:
    """Return the groups that would join next."""
    if len(members) < 2:
        return ()
    starts = np.cumsum([0, *map(len, members)])[:-1]
    order = np.concatenate([np.asarray(one) for one in members])
    sorted_distances = between[np.ix_(order, order)]
    reduce = np.maximum.reduceat if groups.rule == "evidence" else np.minimum.reduceat
    heights = reduce(reduce(sorted_distances, starts, axis=0), starts, axis=1)  # (Q, Q)
    rows, columns = np.triu_indices(len(members), 1)
    nearest = np.argsort(heights[rows, columns], kind="stable")[:NEXT]
    found = []
    for a, b in zip(rows[nearest].tolist(), columns[nearest].tolist(), strict=True):
        block = between[np.ix_(members[a], members[b])]
        i, j = np.argwhere(block == heights[a, b])[0].tolist()
        pair = _pair(embeddings, groups, members[a][i], members[b][j])
        parts = tuple(groups.names[k] for k in members[a]), tuple(groups.names[k] for k in members[b])
        found.append(Join(parts, pair, float(heights[a, b])))
    return tuple(found)


def _pair(embeddings: LabelEmbeddings, groups: Groups, i: int, j: int) -> Pair:
    names = groups.names[i], groups.names[j]
    cosine = float(embeddings.matrix[i] @ embeddings.matrix[j])
    if groups.rule == "dbscan" or embeddings.evidence is None:
        return Pair(names, cosine, None, "", "")
    nouns = [embeddings.terms[k].replace("+", "_") for k in (i, j)]
    kind = dictionary().nearest_kind(*nouns) or ""
    reason = embeddings.evidence.reasons.get((min(i, j), max(i, j)), "")
    captions = float(embeddings.evidence.captions[i, j])
    shown = None if math.isnan(captions) else captions
    return Pair(names, cosine, float(embeddings.evidence.total[i, j]), kind.replace("_", " "), reason, shown)


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
