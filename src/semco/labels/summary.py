"""Summaries of label vectors and groups, as `semco labels` prints them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any

from semco.labels.embeddings import LabelEmbeddings
from semco.labels.groups import Groups
from semco.labels.matching.spelling import spell

REASONS = 3  # shown for one group


def groups_summary(embeddings: LabelEmbeddings, groups: Groups) -> dict[str, Any]:
    """Return eps, the class names of each group, and the term and route of each class."""
    matched = zip(embeddings.names, embeddings.terms, embeddings.routes, strict=True)
    terms = {name: {"term": term, "route": route} for name, term, route in matched}
    evidence = {
        ", ".join(members): dict(zip(("lowest_cosine", "graph"), group_evidence(embeddings, members), strict=True))
        for members in shared_groups(groups)
    }
    return {
        "eps": groups.eps,
        "rule": groups.rule,
        "groups": [list(members) for members in groups.members],
        "evidence": evidence,
        "terms": terms,
    }


def group_evidence(embeddings: LabelEmbeddings, members: Sequence[str]) -> tuple[str, str]:
    """Return the lowest cosine of two classes of a group, and what the graph says about its classes."""
    places = sorted(embeddings.names.index(name) for name in members)
    rows = embeddings.matrix[places]
    reasons = embeddings.evidence.reasons if embeddings.evidence else {}
    found = [reasons[pair] for pair in combinations(places, 2) if pair in reasons]
    return f"{(rows @ rows.T).min():.2f}", "; ".join(dict.fromkeys(found[:REASONS]))


def other_terms(embeddings: LabelEmbeddings) -> list[tuple[str, str, str]]:
    """Return the name, term and route of the classes whose term is spelt differently from the name."""
    matched = zip(embeddings.names, embeddings.terms, embeddings.routes, strict=True)
    return [row for row in matched if "+" in row[1] or spell(row[0]) != spell(row[1])]


def shared_groups(groups: Groups) -> list[tuple[str, ...]]:
    """Return the class names of each group with more than one class."""
    return [members for members in groups.members if len(members) > 1]
