"""The supplement's tables of groups beside the groups of label vectors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import yaml

from semco.analysis.group_scores import GroupScores, score_groups
from semco.config import LabelsConfig
from semco.data.class_names import class_names
from semco.experiment.reproduction import FOLDER
from semco.labels import group_classes, label_source

Groups = Sequence[Sequence[str]]


def published_groups() -> Mapping[str, Mapping[str, Groups]]:
    """Return the published groups by data set and kind of vectors, from groups.yaml."""
    content: dict[str, dict[str, Groups]] = yaml.safe_load((FOLDER / "groups.yaml").read_text(encoding="utf-8"))
    return content


def groups_of(data: str, labels: LabelsConfig) -> list[tuple[str, ...]]:
    """Return the groups of more than one class that label vectors give for a data set."""
    groups = group_classes(label_source(labels).vectors(class_names(data)), labels.eps)
    return [members for members in groups.members if len(members) > 1]


def compare_groups(data: str, labels: LabelsConfig) -> tuple[list[tuple[str, ...]], dict[str, GroupScores]]:
    """Return our groups of a data set, and their agreement with each published table of it."""
    ours = groups_of(data, labels)
    return ours, {kind: score_groups(ours, groups) for kind, groups in published_groups()[data].items()}
