"""Summaries of label vectors and groups, as `semco labels` prints them."""

from __future__ import annotations

from typing import Any

from semco.labels.embeddings import LabelEmbeddings
from semco.labels.groups import Groups
from semco.labels.matching.spelling import spell


def groups_summary(embeddings: LabelEmbeddings, groups: Groups) -> dict[str, Any]:
    """Return eps, the class names of each group, and the term and route of each class."""
    matched = zip(embeddings.names, embeddings.terms, embeddings.routes, strict=True)
    terms = {name: {"term": term, "route": route} for name, term, route in matched}
    return {"eps": groups.eps, "groups": [list(members) for members in groups.members], "terms": terms}


def other_terms(embeddings: LabelEmbeddings) -> list[tuple[str, str, str]]:
    """Return the name, term and route of the classes whose term is spelt differently from the name."""
    matched = zip(embeddings.names, embeddings.terms, embeddings.routes, strict=True)
    return [row for row in matched if "+" in row[1] or spell(row[0]) != spell(row[1])]


def shared_groups(groups: Groups) -> list[tuple[str, ...]]:
    """Return the class names of each group with more than one class."""
    return [members for members in groups.members if len(members) > 1]
