"""Summaries of label vectors and groups, as `semco labels` prints them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import Any

from semco.groups.grouping import Groups
from semco.labels.dictionary import dictionary
from semco.labels.embeddings import LabelEmbeddings
from semco.labels.matching.spelling import spell

REASONS = 3  # shown for one group


def groups_summary(embeddings: LabelEmbeddings, groups: Groups) -> dict[str, Any]:
    """Return eps, the class names of each group, and the term and route of each class."""
    matched = zip(embeddings.names, embeddings.terms, embeddings.routes, strict=True)
    terms = {name: {"term": term, "route": route} for name, term, route in matched}
    evidence = {", ".join(members): group_evidence(embeddings, members) for members in shared_groups(groups)}
    return {
        "eps": groups.eps,
        "rule": groups.rule,
        "groups": [list(members) for members in groups.members],
        "evidence": evidence,
        "terms": terms,
    }


def group_evidence(embeddings: LabelEmbeddings, members: Sequence[str]) -> dict[str, str]:
    """Return why classes are in one group: the lowest cosine and evidence of two of them, what they share.

    What they share is the kind of things that they are by the dictionary, and what the graph says.
    """
    places = sorted(embeddings.names.index(name) for name in members)
    cosines = embeddings.matrix[places] @ embeddings.matrix[places].T
    if embeddings.evidence is None:
        return {"cosine": f"{cosines.min():.2f}", "evidence": "", "kind": "", "graph": ""}
    pairs = list(combinations(places, 2))
    reasons = [embeddings.evidence.reasons[pair] for pair in pairs if pair in embeddings.evidence.reasons]
    nouns = [term.replace("+", "_") for term in embeddings.terms]
    kinds = [dictionary().nearest_kind(nouns[i], nouns[j]) for i, j in pairs]
    return {
        "cosine": f"{cosines.min():.2f}",
        "evidence": f"{min(embeddings.evidence.total[pair] for pair in pairs):.2f}",
        "kind": _listed(kind for kind in kinds if kind),
        "graph": _listed(reasons),
    }


def _listed(texts: Iterable[str]) -> str:
    """Return the first few different texts."""
    return "; ".join(list(dict.fromkeys(texts))[:REASONS])


def other_terms(embeddings: LabelEmbeddings) -> list[tuple[str, str, str]]:
    """Return the name, term and route of the classes whose term is spelt differently from the name."""
    matched = zip(embeddings.names, embeddings.terms, embeddings.routes, strict=True)
    return [row for row in matched if "+" in row[1] or spell(row[0]) != spell(row[1])]


def shared_groups(groups: Groups) -> list[tuple[str, ...]]:
    """Return the class names of each group with more than one class."""
    return [members for members in groups.members if len(members) > 1]
