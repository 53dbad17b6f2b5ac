"""The classes of a project, and what SemCo makes of their names: term, look-alike group, place on a map.

A class keeps its number when it is renamed, so that its labels stay. The labels of a removed class are ignored, and are
there again if the removal is undone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from semco.config import LabelsConfig
from semco.errors import UserError
from semco.labels.embeddings import LabelEmbeddings
from semco.labels.groups import Groups, evidence_distances, group_classes
from semco.labels.plot.layout import fit_to_box, map_coordinates
from semco.labels.sources import Neighbours, store_source
from semco.labels.tune import distances

LONGEST_NAME = 80
NEAREST = 4  # terms that are shown for a name


@dataclass(frozen=True)
class NamedClass:
    """One class: its number, its name, and the vocabulary term that a person set, if any."""

    number: int
    name: str
    alias: str = ""


@dataclass(frozen=True)
class ClassTable:
    """All classes, in the order of their keys, and which of them a person put together or apart."""

    classes: tuple[NamedClass, ...] = ()
    together: tuple[tuple[int, int], ...] = ()
    apart: tuple[tuple[int, int], ...] = ()
    next_number: int = 1

    @classmethod
    def from_plain(cls, values: Mapping[str, Any] | None) -> ClassTable:
        if values is None:
            return cls()
        pairs = {field: tuple((a, b) for a, b in values.get(field, ())) for field in ("together", "apart")}
        classes = tuple(NamedClass(*row) for row in values["classes"])
        return cls(classes, pairs["together"], pairs["apart"], values["next_number"])

    def to_plain(self) -> dict[str, Any]:
        classes = [[each.number, each.name, each.alias] for each in self.classes]
        return {
            "classes": classes,
            "together": [list(pair) for pair in self.together],
            "apart": [list(pair) for pair in self.apart],
            "next_number": self.next_number,
        }

    @property
    def names(self) -> dict[int, str]:
        return {each.number: each.name for each in self.classes}

    @property
    def aliases(self) -> dict[str, str]:
        return {each.name: each.alias for each in self.classes if each.alias}

    def add(self, *names: str) -> ClassTable:
        """Return the table with further classes; names that are there already are an error."""
        table = self
        for name in names:
            new = NamedClass(table.next_number, table._checked(name))
            table = replace(table, classes=(*table.classes, new), next_number=table.next_number + 1)
        return table

    def rename(self, number: int, name: str) -> ClassTable:
        """Return the table with another name, and so without the alias of the old one."""
        found = self.find(number)
        return self if found.name == name.strip() else self._with(NamedClass(number, self._checked(name, number)))

    def set_alias(self, number: int, alias: str) -> ClassTable:
        return self._with(replace(self.find(number), alias=alias.strip()))

    def remove(self, number: int) -> ClassTable:
        self.find(number)
        kept = tuple(each for each in self.classes if each.number != number)
        together, apart = (tuple(p for p in pairs if number not in p) for pairs in (self.together, self.apart))
        return replace(self, classes=kept, together=together, apart=apart)

    def pair(self, first: int, second: int, kind: str) -> ClassTable:
        """Return the table with two classes put ``together`` or ``apart``, or left to the rule (``free``)."""
        if kind not in ("together", "apart", "free") or first == second:
            raise UserError(f"two different classes are put together, apart or free, not {kind!r}.")
        self.find(first), self.find(second)
        pair = (min(first, second), max(first, second))
        table = replace(
            self,
            together=tuple(each for each in self.together if each != pair),
            apart=tuple(each for each in self.apart if each != pair),
        )
        if kind == "together":
            return replace(table, together=(*table.together, pair))
        return replace(table, apart=(*table.apart, pair)) if kind == "apart" else table

    def move(self, number: int, place: int) -> ClassTable:
        """Return the table with a class at another place, which decides on its key."""
        found = self.find(number)
        others = [each for each in self.classes if each.number != number]
        others.insert(max(0, min(place, len(others))), found)
        return replace(self, classes=tuple(others))

    def find(self, number: int) -> NamedClass:
        for each in self.classes:
            if each.number == number:
                return each
        raise UserError("this class was removed, perhaps in another tab.")

    def labels_config(self, names: Sequence[str]) -> dict[str, Any]:
        """Return the fields of the configuration's section ``labels`` for a run with these classes."""
        known = self.names

        def named(pairs: tuple[tuple[int, int], ...]) -> list[list[str]]:
            return [[known[a], known[b]] for a, b in pairs if known[a] in names and known[b] in names]

        aliases = {name: alias for name, alias in self.aliases.items() if name in names}
        return {"aliases": aliases, "together": named(self.together), "apart": named(self.apart)}

    def _with(self, changed: NamedClass) -> ClassTable:
        self.find(changed.number)
        return replace(self, classes=tuple(changed if each.number == changed.number else each for each in self.classes))

    def _checked(self, name: str, own: int | None = None) -> str:
        name = " ".join(name.split())
        if not name:
            raise UserError("a class needs a name; write one.")
        if len(name) > LONGEST_NAME:
            raise UserError(f"a class name has at most {LONGEST_NAME} letters, not {len(name)}; shorten it.")
        if any(each.name.casefold() == name.casefold() and each.number != own for each in self.classes):
            raise UserError(f"there is a class {name!r} already; choose another name.")
        return name


def describe(table: ClassTable) -> dict[str, Any]:
    """Return what the names were taken for, by class, with groups and a map, as plain values."""
    if not table.classes:
        return {"classes": [], "groups": [], "together": (), "apart": ()}
    names = tuple(each.name for each in table.classes)
    config = LabelsConfig.model_validate(table.labels_config(names))
    found, embeddings, points = _look_up(names, tuple(sorted(config.aliases.items())))
    groups = group_classes(embeddings, None, None, config.together, config.apart)
    rows = [
        _describe_class(each, found[each.name], int(groups.group_ids[i]), points[i])
        | {"is_doubtful": any(note.startswith(f"class {each.name!r} (term") for note in embeddings.notes)}
        for i, each in enumerate(table.classes)
    ]
    return {
        "classes": rows,
        "groups": _members(table, groups),
        "together": table.together,
        "apart": table.apart,
    }


@lru_cache(maxsize=8)
def _look_up(
    names: tuple[str, ...], aliases: tuple[tuple[str, str], ...]
) -> tuple[dict[str, Neighbours], LabelEmbeddings, NDArray[np.float64]]:
    """Return the terms, the vectors and the places on the map (K, 2) of class names."""
    source = store_source(None, dict(aliases))
    near, _ = source.neighbours(names, NEAREST)
    embeddings = source.vectors(names)
    return {each.match.name: each for each in near}, embeddings, _map(embeddings)


def _describe_class(each: NamedClass, near: Neighbours, group: int, point: NDArray[np.float64]) -> dict[str, Any]:
    match = near.match
    return {
        "number": each.number,
        "name": each.name,
        "alias": each.alias,
        "term": match.term.replace("_", " "),
        "route": match.how,
        "confidence": match.confidence,
        "nearest": [term.replace("_", " ") for term, _ in near.nearest],
        "group": group,
        "x": round(float(point[0]), 4),
        "y": round(float(point[1]), 4),
    }


def _members(table: ClassTable, groups: Groups) -> list[list[int]]:
    members: list[list[int]] = [[] for _ in range(groups.count)]
    for each, group_id in zip(table.classes, groups.group_ids.tolist(), strict=True):
        members[group_id].append(each.number)
    return members


def _map(embeddings: LabelEmbeddings) -> NDArray[np.float64]:
    """Return the place (K, 2) of each class on a map from 0 to 1."""
    if len(embeddings.names) < 3:
        return np.asarray([[0.3 + 0.4 * i, 0.5] for i in range(len(embeddings.names))])
    far = distances(embeddings.matrix) if embeddings.evidence is None else evidence_distances(embeddings)
    return fit_to_box(map_coordinates(far), 1.0, 1.0)
