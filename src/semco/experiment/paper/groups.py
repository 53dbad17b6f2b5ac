"""The paper's tables of groups beside the groups of label vectors, at the paper's eps and over a grid."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any

import yaml

from semco.config import LabelsConfig
from semco.data.class_names import class_names
from semco.experiment.paper.reproduction import FOLDER
from semco.groups.grouping import Groups, group_classes
from semco.groups.published import GroupScores, score_groups
from semco.labels import label_source

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
    """The groups of more than one class that a rule finds, and their agreement with each published table."""

    data: str
    rule: str
    eps: float
    is_papers: bool  # the paper's rule at its eps
    groups: tuple[tuple[str, ...], ...]
    scores: Mapping[str, GroupScores]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def compare_groups(data: str, labels: LabelsConfig) -> list[ComparedGroups]:
    """Return what the paper's rule makes of a data set's names over eps, and what our rule does if it can."""
    embeddings = label_source(labels).vectors(class_names(data))
    grid = sorted({published_groups()[data].eps, *GRID})
    found = [group_classes(embeddings, eps, "dbscan") for eps in grid]
    if embeddings.evidence is not None:
        found.append(group_classes(embeddings, None, "evidence"))
    return [_compare(data, groups) for groups in found]


def _compare(data: str, groups: Groups) -> ComparedGroups:
    shared = tuple(members for members in groups.members if len(members) > 1)
    published = published_groups()[data]
    scores = {kind: score_groups(shared, table) for kind, table in published.tables.items()}
    is_papers = groups.rule == "dbscan" and groups.eps == published.eps
    return ComparedGroups(data, groups.rule, groups.eps, is_papers, shared, scores)
