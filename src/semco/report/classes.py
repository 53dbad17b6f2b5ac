"""The parts of a report about classes: label groups, confusion matrix, accuracy per class.

Shapes: K classes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from semco.data.datasets import simplify_name
from semco.evaluation.metrics import per_class_accuracy, per_class_precision
from semco.labels.matching.routes import MEAN_OF_WORDS, SPELLING_CORRECTION, WORD_DROPPING_ROUTES
from semco.report.charts import Chart
from semco.report.figures import confusion_chart
from semco.report.runs import Run
from semco.report.tables import MISSING, format_accuracy

MISTAKES_SHOWN = 10
# Routes that may lead to a term of another meaning.
UNCERTAIN_ROUTES = (*WORD_DROPPING_ROUTES, SPELLING_CORRECTION.route, MEAN_OF_WORDS.route)


@dataclass(frozen=True)
class GroupMember:
    """A class with a note on the term it was matched to, and whether a person should check that term."""

    name: str
    note: str
    is_uncertain: bool


@dataclass(frozen=True)
class LabelGroups:
    """The label groups of a run: groups of several classes, and the classes that are alone in their group."""

    introduction: str
    shared: tuple[tuple[GroupMember, ...], ...]
    alone: tuple[GroupMember, ...]


def label_groups(run: Run) -> LabelGroups | None:
    """Return the label groups with the term and route of each class; None if the run has no label vectors."""
    names, group_ids = run.class_names, run.labels.get("groups") or []
    if not names or len(group_ids) != len(names) or not run.labels.get("terms"):
        return None
    members = _members(run.labels, names)
    by_group: dict[int, list[GroupMember]] = {}
    for member, group_id in zip(members, group_ids, strict=True):
        by_group.setdefault(int(group_id), []).append(member)
    shared = tuple(tuple(group) for group in by_group.values() if len(group) > 1)
    alone = tuple(group[0] for group in by_group.values() if len(group) == 1)
    return LabelGroups(_introduce_groups(run.labels, members), shared, alone)


def _members(labels: Mapping[str, Any], names: Sequence[str]) -> list[GroupMember]:
    terms, routes = labels.get("terms") or [], labels.get("routes") or []
    if not len(terms) == len(routes) == len(names):
        return [GroupMember(name, "", is_uncertain=False) for name in names]
    return [_member(name, str(t), str(r)) for name, t, r in zip(names, terms, routes, strict=True)]


def _member(name: str, term: str, route: str) -> GroupMember:
    """Return a class with a note, unless its term is the class name itself."""
    is_uncertain = route.startswith(UNCERTAIN_ROUTES) or "shared" in route
    if simplify_name(term) == simplify_name(name) and not is_uncertain:
        return GroupMember(name, "", is_uncertain=False)
    how = "" if route == "exact" else f" ({route})"
    return GroupMember(name, f"→ {term.replace('_', ' ')}{how}", is_uncertain)


def _introduce_groups(labels: Mapping[str, Any], members: Sequence[GroupMember]) -> str:
    source, eps = labels.get("source"), labels.get("eps")
    sentences = []
    if source and source != "none":
        sentences.append(f"Source of the label vectors: {source}.")
    if isinstance(eps, int | float) and eps > 0:
        sentences.append(f"Classes whose label vectors are closer than {eps:g} (cosine distance) share a group.")
    if any(member.note for member in members):
        sentences.append("An arrow shows the term that a class name was matched to, and the route.")
    if any(member.is_uncertain for member in members):
        sentences.append("Check the highlighted terms: they may mean something else.")
    return " ".join(sentences)


@dataclass(frozen=True)
class Mistake:
    truth: str
    prediction: str
    count: str
    is_in_group: bool


@dataclass(frozen=True)
class Confusions:
    """The confusion matrix of the test images and its most common mistakes."""

    introduction: str
    chart: Chart
    mistakes: tuple[Mistake, ...]

    @property
    def has_mistakes_in_groups(self) -> bool:
        return any(mistake.is_in_group for mistake in self.mistakes)


@dataclass(frozen=True)
class ClassRow:
    """Recall and precision of one class; ``percent`` is the recall as a number, for a bar."""

    name: str
    images: int
    recall: str
    percent: float
    precision: str
    most_common_mistake: str


def _confusion_matrix(run: Run) -> NDArray[np.int64] | None:
    """Return the confusion matrix (K, K) of the test images; None if the run has none."""
    matrix = np.asarray(run.evaluation.get("confusion") or [], dtype=np.int64)
    size = len(run.class_names)
    return matrix if size and matrix.shape == (size, size) else None


def confusions(run: Run) -> Confusions | None:
    """Return the confusion matrix of the test images with its most common mistakes; None if the run has none."""
    matrix = _confusion_matrix(run)
    if matrix is None:
        return None
    names = run.class_names
    group_ids = [int(group_id) for group_id in run.evaluation.get("groups") or range(len(names))]
    svg = confusion_chart(matrix, names, group_ids, "Confusion matrix of the test images")
    introduction = "Each row shows how the test images of one class were classified."
    if len(set(group_ids)) < len(group_ids):
        introduction += " Classes are ordered by label group; a frame marks each group of several classes."
    chart = Chart("Confusion matrix", svg, caption="Numbers are percentages of a row.")
    return Confusions(introduction, chart, _most_common_mistakes(matrix, names, group_ids))


def _most_common_mistakes(
    matrix: NDArray[np.int64], names: Sequence[str], group_ids: Sequence[int]
) -> tuple[Mistake, ...]:
    wrong = matrix - np.diag(np.diag(matrix))
    order = np.argsort(-wrong, axis=None, kind="stable")[:MISTAKES_SHOWN]
    cells = [divmod(int(cell), len(names)) for cell in order]
    return tuple(
        Mistake(names[t], names[p], f"{wrong[t, p]} of {matrix[t].sum()}", group_ids[t] == group_ids[p])
        for t, p in cells
        if wrong[t, p] > 0
    )


def class_rows(run: Run) -> list[ClassRow]:
    """Return one row per class, sorted by recall; empty if the run has no confusion matrix."""
    matrix = _confusion_matrix(run)
    if matrix is None:
        return []
    recalls, precisions, names = per_class_accuracy(matrix), per_class_precision(matrix), run.class_names
    rows = [
        ClassRow(
            name,
            images=int(matrix[k].sum()),
            recall=format_accuracy(recall),
            percent=round(100 * (recall or 0.0), 1),
            precision=format_accuracy(precision),
            most_common_mistake=_most_common_mistake(matrix[k], k, names),
        )
        for k, (name, recall, precision) in enumerate(zip(names, recalls, precisions, strict=True))
    ]
    return sorted(rows, key=lambda row: row.percent)


def _most_common_mistake(counts: NDArray[np.int64], k: int, names: Sequence[str]) -> str:
    """Return the wrong class that images of class ``k`` are most often given, with their number; ``counts`` is (K,)."""
    wrong = counts.copy()
    wrong[k] = 0
    worst = int(wrong.argmax())
    return f"{names[worst]} ({wrong[worst]})" if wrong[worst] else MISSING
