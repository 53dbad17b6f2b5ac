"""How SemCo understands the class names: term, group, place on a map."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from semco.config import LabelsConfig
from semco.groups.grouping import Groups, group_classes
from semco.labels.embeddings import LabelEmbeddings
from semco.labels.eps import distances
from semco.labels.sources import Neighbours, store_source
from semco.studio.journal import ClassTable, NamedClass

NEAREST = 4  # terms that are shown for a name


def describe(table: ClassTable) -> dict[str, Any]:
    """Return the term, group and place on the map of each class, as plain values."""
    if not table.classes:
        return {"classes": [], "groups": [], "together": (), "apart": ()}
    names = tuple(each.name for each in table.classes)
    config = LabelsConfig.model_validate(table.labels_config(names))
    found, embeddings, points = _look_up(names, tuple(sorted(config.aliases.items())))
    groups = group_classes(embeddings, None, config.together, config.apart)
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
    points = map_coordinates(distances(embeddings.matrix))
    low, high = points.min(axis=0), points.max(axis=0)
    fitted: NDArray[np.float64] = (points - low) / np.maximum(high - low, 1e-9)
    return fitted


def map_coordinates(distances: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the t-SNE coordinates (K, 2) of distances (K, K), initialised by classical scaling to be deterministic."""
    start = _classical_scaling(distances)
    if len(distances) < 5:
        return start
    from sklearn.manifold import TSNE

    scale = 1e-4 / max(float(start[:, 0].std()), 1e-12)
    perplexity = min(15.0, (len(distances) - 1) / 3)
    model = TSNE(metric="precomputed", init=(start * scale).astype(np.float32), perplexity=perplexity, random_state=0)
    found: NDArray[np.float64] = model.fit_transform(distances).astype(np.float64)
    return found


def _classical_scaling(distances: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the plane (K, 2) that preserves squared distances best (Torgerson)."""
    size = len(distances)
    centre = np.eye(size) - 1 / size
    values, vectors = np.linalg.eigh(-0.5 * centre @ (2 * distances) @ centre)  # |u - v|^2 = 2 (1 - cos)
    plane = vectors[:, ::-1][:, :2] * np.sqrt(np.maximum(values[::-1][:2], 0))
    signs = np.where(plane[np.abs(plane).argmax(axis=0), [0, 1]] < 0, -1.0, 1.0)
    found: NDArray[np.float64] = plane * signs
    return found
