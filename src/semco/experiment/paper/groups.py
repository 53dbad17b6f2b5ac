"""The paper's tables of groups beside the groups of label vectors, at the paper's eps and over a grid."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from itertools import combinations
from typing import Any

import yaml

from semco.config import LabelsConfig
from semco.data.class_names import class_names
from semco.data.names import simplify_name
from semco.experiment.paper.reproduction import FOLDER
from semco.groups.grouping import Groups, group_classes
from semco.labels import label_source

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


def pairs_of(groups: Iterable[Iterable[str]]) -> set[Pair]:
    """Return all pairs of names within a group."""
    return {frozenset(pair) for members in groups for pair in combinations(members, 2)}


def score_groups(found: Sequence[Sequence[str]], published: Sequence[Sequence[str]]) -> GroupScores:
    """Compare the groups that were found with published ones; underscores and spaces are alike."""
    ours, theirs = (pairs_of([map(simplify_name, group) for group in groups]) for groups in (found, published))
    both = len(ours & theirs)
    return GroupScores(
        both / len(ours) if ours else None,
        both / len(theirs) if theirs else None,
        2 * both / (len(ours) + len(theirs)) if ours or theirs else 1.0,
        both,
        len(ours),
        len(theirs),
    )


GRID = (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5)


@dataclass(frozen=True)
class PublishedGroups:
    """The groups of more than one class that the paper gives for a data set, by kind of vectors, and its eps."""

    eps: float
    tables: Mapping[str, Sequence[Sequence[str]]]


@cache
def published_groups() -> Mapping[str, PublishedGroups]:
    """Return the published groups by data set, from groups.yaml."""
    content: dict[str, dict[str, Any]] = yaml.safe_load((FOLDER / "groups.yaml").read_text(encoding="utf-8"))
    return {data: PublishedGroups(entry.pop("eps"), entry) for data, entry in content.items()}


@dataclass(frozen=True)
class ComparedGroups:
    """The groups of more than one class at one eps, and their agreement with each published table."""

    data: str
    eps: float
    is_papers: bool  # the paper's eps
    groups: tuple[tuple[str, ...], ...]
    scores: Mapping[str, GroupScores]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def compare_groups(data: str, labels: LabelsConfig) -> list[ComparedGroups]:
    """Return the groups of a data set's names over eps."""
    embeddings = label_source(labels).vectors(class_names(data))
    grid = sorted({published_groups()[data].eps, *GRID})
    return [_compare(data, group_classes(embeddings, eps)) for eps in grid]


def _compare(data: str, groups: Groups) -> ComparedGroups:
    shared = tuple(members for members in groups.members if len(members) > 1)
    published = published_groups()[data]
    scores = {kind: score_groups(shared, table) for kind, table in published.tables.items()}
    return ComparedGroups(data, groups.eps, groups.eps == published.eps, shared, scores)
