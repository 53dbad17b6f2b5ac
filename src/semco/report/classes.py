"""What a report says of the classes: their meaning, their groups, and how they are confused.

Shapes: K classes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from semco.data.datasets import simplify_name
from semco.evaluation.metrics import per_class_accuracy, per_class_precision
from semco.report.charts import Chart
from semco.report.figures import confusion_chart
from semco.report.runs import Run
from semco.report.tables import accuracy_text

MISTAKES_SHOWN = 10
# Routes of the look-up (labels/lookup.py) that may end at another meaning.
DOUBTFUL = ("last two words", "before of", "head noun", "edit distance", "mean of words")


@dataclass(frozen=True)
class Member:
    """A class as a chip: its name, the term it was matched to and how, and whether a person should look."""

    name: str
    note: str
    check: bool


@dataclass(frozen=True)
class Group:
    title: str
    members: tuple[Member, ...]


@dataclass(frozen=True)
class Meaning:
    """The label groups of a run."""

    lead: str
    shared: tuple[Group, ...]
    alone: tuple[Member, ...]


def meaning(run: Run) -> Meaning | None:
    """Groups with the matched term and route of each class; None where the run has (or has yet) no vectors."""
    names, groups = run.class_names, run.labels.get("groups") or []
    if not names or len(groups) != len(names) or not run.labels.get("terms"):
        return None
    members = _members(run.labels, names)
    by_group: dict[int, list[Member]] = {}
    for member, group in zip(members, groups, strict=True):
        by_group.setdefault(int(group), []).append(member)
    shared = [group for group in by_group.values() if len(group) > 1]
    alone = [group[0] for group in by_group.values() if len(group) == 1]
    titled = tuple(Group(f"{len(group)} classes of near meaning", tuple(group)) for group in shared)
    return Meaning(_meaning_lead(run.labels, members), titled, tuple(alone))


def _members(labels: Mapping[str, Any], names: list[str]) -> list[Member]:
    terms, routes = labels.get("terms") or [], labels.get("routes") or []
    if not len(terms) == len(routes) == len(names):
        return [Member(name, "", False) for name in names]
    return [_member(name, str(t), str(r)) for name, t, r in zip(names, terms, routes, strict=True)]


def _member(name: str, term: str, route: str) -> Member:
    """Nothing is said of a name that stands for itself."""
    check = route.startswith(DOUBTFUL) or "shared" in route
    if simplify_name(term) == simplify_name(name) and not check:
        return Member(name, "", False)
    how = "" if route == "exact" else f" ({route})"
    return Member(name, f"→ {term.replace('_', ' ')}{how}", check)


def _meaning_lead(labels: Mapping[str, Any], members: list[Member]) -> str:
    source, eps = labels.get("source"), labels.get("eps")
    lead = f"Vectors of the class names from: {source}. " if source and source != "none" else ""
    if isinstance(eps, int | float) and eps > 0:
        lead += f"Classes closer than {eps:g} (cosine distance) share a group. "
    if any(member.check for member in members):
        lead += "For highlighted names something else stands in: see whether it means the same."
    return lead.strip()


@dataclass(frozen=True)
class Mistake:
    truth: str
    label: str
    share: str
    same_group: bool


@dataclass(frozen=True)
class Confusions:
    lead: str
    figure: Chart
    pairs: tuple[Mistake, ...]
    marked: bool


@dataclass(frozen=True)
class ClassRow:
    name: str
    images: int
    recall: str
    share: float
    precision: str
    mistaken: str


def _confusion(run: Run) -> NDArray[np.int64] | None:
    """(K, K), or None where the run has no test numbers."""
    matrix = np.asarray(run.evaluation.get("confusion") or [], dtype=np.int64)
    size = len(run.class_names)
    return matrix if size and matrix.shape == (size, size) else None


def confusions(run: Run) -> Confusions | None:
    """The confusion matrix of the test set with its most common mistakes."""
    matrix = _confusion(run)
    if matrix is None:
        return None
    names = run.class_names
    groups = [int(group) for group in run.evaluation.get("groups") or range(len(names))]
    chart = confusion_chart(matrix, names, groups, "Confusion matrix of the test images")
    pairs = _mistakes(matrix, names, groups)
    framed = len(set(groups)) < len(groups)
    lead = "Each row is a true class: what its test images were taken for."
    lead += " Classes of a label group stand side by side, framed." if framed else ""
    return Confusions(
        lead,
        Chart("Confusion matrix", chart, caption="Numbers are percent of a row."),
        pairs,
        any(pair.same_group for pair in pairs),
    )


def _mistakes(matrix: NDArray[np.int64], names: list[str], groups: list[int]) -> tuple[Mistake, ...]:
    wrong = matrix - np.diag(np.diag(matrix))
    order = np.argsort(-wrong, axis=None, kind="stable")[:MISTAKES_SHOWN]
    cells = [(int(c) // len(names), int(c) % len(names)) for c in order]
    return tuple(
        Mistake(names[t], names[p], f"{wrong[t, p]} of {matrix[t].sum()}", groups[t] == groups[p])
        for t, p in cells
        if wrong[t, p] > 0
    )


def class_rows(run: Run) -> list[ClassRow]:
    """One row a class, the worst first."""
    matrix = _confusion(run)
    if matrix is None:
        return []
    recalls, precisions = per_class_accuracy(matrix), per_class_precision(matrix)
    rows = []
    for k, name in enumerate(run.class_names):
        recall = recalls[k]
        share = 0.0 if recall is None else round(100 * recall, 1)
        mistaken = _mistaken_for(matrix[k], k, run.class_names)
        images, right = int(matrix[k].sum()), accuracy_text(precisions[k])
        rows.append(ClassRow(name, images, accuracy_text(recall), share, right, mistaken))
    return sorted(rows, key=lambda row: row.share)


def _mistaken_for(row: NDArray[np.int64], own: int, names: list[str]) -> str:
    others = row.copy()
    others[own] = 0
    worst = int(others.argmax())
    return f"{names[worst]} ({others[worst]})" if others[worst] else "–"
