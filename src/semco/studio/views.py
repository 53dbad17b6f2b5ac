"""The order and the filter by which the wall shows photos, as chosen on the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from semco.errors import UserError
from semco.studio.review import Answers

ORDERS = ("diverse", "useful", "sure", "name", "random")


@dataclass(frozen=True)
class Query:
    """What to show. Fields that are None do not restrict anything."""

    order: str = "diverse"
    """diverse: some of every kind first; useful: the model is unsure; sure: the model is sure; name: by file name;
    random: by nothing, to check the model."""
    labelled: bool | None = None
    label: int | None = None
    """Photos with this label."""
    guesses: tuple[int, ...] = ()
    """Photos that the model takes for one of these classes."""
    disagree: bool = False
    """Photos for which the heads give different classes."""
    least: float = 0.0
    most: float = 1.0
    """Confidence of the model."""
    text: str = ""
    """Part of the file name."""

    @classmethod
    def parse(cls, values: Mapping[str, str]) -> Query:
        """Return the query of a request; a bad value is a `UserError`."""
        order = values.get("order", "diverse")
        if order not in ORDERS:
            raise UserError(f"photos are ordered by {', '.join(ORDERS)}, not by {order!r}.")
        try:
            return cls(
                order=order,
                labelled={"yes": True, "no": False}.get(values.get("labelled", "")),
                label=int(values["label"]) if values.get("label") else None,
                guesses=tuple(int(each) for each in values.get("guesses", "").split(",") if each),
                disagree=values.get("disagree") == "yes",
                least=float(values.get("least", 0.0)),
                most=float(values.get("most", 1.0)),
                text=values.get("text", "").casefold(),
            )
        except ValueError as error:
            raise UserError(f"the page asked for photos in a way that is not understood: {error}.") from None

    @property
    def needs_answers(self) -> bool:
        return bool(self.guesses or self.disagree or self.least > 0 or self.most < 1)


def choose(
    query: Query,
    names: Sequence[str],
    labels: Mapping[int, int],
    diverse: Sequence[int],
    answers: Answers | None,
) -> list[int]:
    """Return the numbers of the photos that a query asks for, in its order."""
    kept = np.ones(len(names), dtype=np.bool_)
    given = np.fromiter(labels, dtype=np.int64, count=len(labels))
    has_label = np.isin(np.arange(len(names)), given)
    if query.labelled is not None:
        kept &= has_label == query.labelled
    if query.label is not None:
        wanted = [number for number, class_number in labels.items() if class_number == query.label]
        kept &= np.isin(np.arange(len(names)), wanted)
    if query.text:
        kept &= np.fromiter((query.text in name.casefold() for name in names), dtype=np.bool_, count=len(names))
    if query.needs_answers:
        kept &= _answered(query, answers, len(names))
    order = _order(query.order, len(names), diverse, answers)
    found: list[int] = order[kept[order]].tolist()
    return found


def _answered(query: Query, answers: Answers | None, count: int) -> NDArray[np.bool_]:
    """Return the photos whose answers match the query."""
    kept = np.zeros(count, dtype=np.bool_)
    if answers is None:
        return kept
    rows = (answers.confidence >= query.least) & (answers.confidence <= query.most)
    if query.guesses:
        rows &= np.isin(answers.guesses, query.guesses)
    if query.disagree:
        rows &= answers.disagree
        if query.guesses:
            rows &= np.isin(answers.others, query.guesses)
    kept[answers.numbers[rows]] = True
    return kept


def _order(name: str, count: int, diverse: Sequence[int], answers: Answers | None) -> NDArray[np.int64]:
    if name == "name":
        return np.arange(count)
    if name == "random":
        return np.random.default_rng(count).permutation(count)
    if name == "diverse" or answers is None:
        return np.asarray(diverse, dtype=np.int64)
    rows = answers.most_useful() if name == "useful" else np.lexsort((-answers.confidence, answers.disagree))
    first = answers.numbers[rows]
    rest = np.setdiff1d(np.arange(count), first)
    return np.concatenate([first, rest])


def with_answers(numbers: Sequence[int], answers: Answers | None) -> dict[str, Any]:
    """Return photos with the model's answers in columns: class, confidence in percent, class of the other head."""
    if answers is None:
        return {"numbers": list(numbers)}
    count = max(int(answers.numbers.max(initial=-1)), max(numbers, default=-1)) + 1
    rows = np.full(count, -1, dtype=np.int64)
    rows[answers.numbers] = np.arange(len(answers))
    found = rows[np.asarray(numbers, dtype=np.int64)]
    is_there = found >= 0

    def column(values: NDArray[Any], missing: int) -> list[int]:
        if not len(values):
            return [missing] * len(found)
        return [int(value) for value in np.where(is_there, values[found], missing)]

    other = np.where(answers.disagree, answers.others, -1)
    return {
        "numbers": list(numbers),
        "guesses": column(answers.guesses, -1),
        "confidence": column(np.floor(100 * answers.confidence), -1),
        "others": column(other, -1),
    }
