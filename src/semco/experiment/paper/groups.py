"""The supplement's tables of groups beside the groups of label vectors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import yaml

from semco.config import LabelsConfig
from semco.data.class_names import class_names
from semco.experiment.paper.reproduction import FOLDER
from semco.groups.grouping import Groups, group_classes
from semco.groups.published import GroupScores, score_groups
from semco.labels import label_source

PublishedGroups = Sequence[Sequence[str]]

PAPER_EPS = 0.2  # supplement; Mini-ImageNet has 0.3, but its groups are not in groups.yaml


def published_groups() -> Mapping[str, Mapping[str, PublishedGroups]]:
    """Return the published groups by data set and kind of vectors, from groups.yaml."""
    content: dict[str, dict[str, Sequence[Sequence[str]]]] = yaml.safe_load(
        (FOLDER / "groups.yaml").read_text(encoding="utf-8")
    )
    return content


@dataclass(frozen=True)
class ComparedGroups:
    """The groups of more than one class that a rule finds, and their agreement with each published table."""

    rule: str
    groups: tuple[tuple[str, ...], ...]
    scores: Mapping[str, GroupScores]


def compare_rules(data: str, labels: LabelsConfig) -> list[ComparedGroups]:
    """Return what the paper's rule, at its eps and at that of the source, and our rule make of a data set's names."""
    embeddings = label_source(labels).vectors(class_names(data))
    found = {
        f"paper, eps {PAPER_EPS:g}": group_classes(embeddings, PAPER_EPS, "dbscan"),
        f"paper, eps {embeddings.default_eps:.2f} of the vectors": group_classes(embeddings, None, "dbscan"),
    }
    if embeddings.evidence is not None:
        found["SemCo+, evidence"] = group_classes(embeddings, None, "evidence")
    return [_compare(data, rule, groups) for rule, groups in found.items()]


def _compare(data: str, rule: str, groups: Groups) -> ComparedGroups:
    shared = tuple(members for members in groups.members if len(members) > 1)
    published = published_groups()[data]
    return ComparedGroups(rule, shared, {kind: score_groups(shared, each) for kind, each in published.items()})
