"""The parts of a report about classes: label groups, confusion matrix, accuracy per class.

Shapes: K classes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from semco.data.names import simplify_name
from semco.evaluation.metrics import Confusion, confusion_from_json, per_class_accuracy, per_class_precision
from semco.labels.matching.routes import (
    MEAN_OF_WORDS,
    OWN_VECTOR,
    SENTENCE,
    SPELLING_CORRECTION,
    WORD_DROPPING_ROUTES,
)
from semco.report.charts import Chart
from semco.report.figures import confusion_chart
from semco.report.runs import Run
from semco.report.tables import MISSING, format_accuracy

MISTAKES_SHOWN = 10
# Notes on classes that have no term, by route.
WITHOUT_TERM = {SENTENCE: "placed by its meaning (sentence encoder)", OWN_VECTOR: "a vector of its own"}
UNTESTED = "one label, could not be tested"
CLASSES_DRAWN = 1_000  # a larger confusion matrix has cells smaller than a dot
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
    if not term:
        return GroupMember(name, WITHOUT_TERM.get(route, route), is_uncertain)
    how = "" if route == "exact" else f" ({route})"
    return GroupMember(name, f"→ {term.replace('_', ' ')}{how}", is_uncertain)


def _introduce_groups(labels: Mapping[str, Any], members: Sequence[GroupMember]) -> str:
    source, eps = labels.get("source"), labels.get("eps")
    sentences = []
    if source and source != "none":
        sentences.append(f"Source of the label vectors: {source}.")
    if isinstance(eps, int | float) and eps > 0:
        sentences.append(f"Classes whose label vectors are closer than {eps:g} (cosine distance) share a group.")
    if any(member.note.startswith("→") for member in members):
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
    """A confusion matrix and its most common mistakes."""

    introduction: str
    chart: Chart | None  # None: too many classes to draw
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


def _confusion(run: Run) -> Confusion | None:
    """Return the confusion of the evaluated images; None if the run has none."""
    size = len(run.class_names)
    return confusion_from_json(run.evaluation.get("confusion"), size) if size else None


def confusions(run: Run) -> Confusions | None:
    """Return the confusion matrix with its most common mistakes; None if the run has none.

    It is of the test images if there are any, else of the images whose labels were held out.
    """
    confusion = _confusion(run)
    if confusion is None:
        return None
    names = run.class_names
    group_ids = [int(group_id) for group_id in run.evaluation.get("groups") or range(len(names))]
    images = f"{run.evaluated} images"
    introduction = f"Each row shows how the {images} of one class were classified. {run.how_evaluated}".rstrip()
    if len(set(group_ids)) < len(group_ids):
        introduction += " Classes are ordered by label group; a frame marks each group of several classes."
    chart = None
    if len(names) <= CLASSES_DRAWN:
        svg = confusion_chart(confusion.dense(), names, group_ids, f"Confusion matrix of the {images}")
        chart = Chart("Confusion matrix", svg, caption="Numbers are percentages of a row.")
    return Confusions(introduction, chart, _most_common_mistakes(confusion, names, group_ids))


def _most_common_mistakes(confusion: Confusion, names: Sequence[str], group_ids: Sequence[int]) -> tuple[Mistake, ...]:
    images = confusion.images
    return tuple(
        Mistake(names[t], names[p], f"{count} of {images[t]}", group_ids[t] == group_ids[p])
        for t, p, count in confusion.mistakes()[:MISTAKES_SHOWN]
    )


def class_rows(run: Run) -> list[ClassRow]:
    """Return one row per class, sorted by recall; empty if the run has no confusion matrix.

    The row of a class that a cross-validation could not test says so in place of its most common mistake.
    """
    confusion = _confusion(run)
    if confusion is None:
        return []
    worst: dict[int, str] = {}
    for truth, predicted, count in confusion.mistakes():
        worst.setdefault(truth, f"{run.class_names[predicted]} ({count})")
    if run.result is not None:
        untested = run.result.untested_classes
        worst |= {k: UNTESTED for k, name in enumerate(run.class_names) if name in untested}
    recalls, precisions = per_class_accuracy(confusion), per_class_precision(confusion)
    rows = [
        ClassRow(
            name,
            images=images,
            recall=format_accuracy(recall),
            percent=round(100 * (recall or 0.0), 1),
            precision=format_accuracy(precision),
            most_common_mistake=worst.get(k, MISSING),
        )
        for k, (name, images, recall, precision) in enumerate(
            zip(run.class_names, confusion.images.tolist(), recalls, precisions, strict=True)
        )
    ]
    return sorted(rows, key=lambda row: row.percent)
