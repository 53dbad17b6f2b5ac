"""Where class vectors come from: a vector store, class attributes, or a matrix of the user's own.

Each is a `LabelSource`. Cosines of each live on their own scale, so each gives its own default eps: a store
brings the one it was made with; for attributes and matrices it is the eps at which as many pairs of classes
are neighbours as in the paper's groups of CIFAR-100 (`tune.eps_for_share`).

Shapes: K classes, d embedding size, R rows of a file, a columns of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import shake_256
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from semco.errors import UserError, nearest
from semco.labels.embeddings import LabelEmbeddings, Matrix
from semco.labels.lookup import Lookup, Match, check_names, spellings
from semco.labels.store import VectorStore, bundled_store, unit_rows
from semco.labels.tables import NamedRows, read_rows
from semco.labels.tune import distances, eps_for_share

SAME = 1e-6  # cosine distance below which two vectors are one
TURN = 0.98  # cosine between a term's vector and that of a class that shares the term with another


class StoreSource:
    """Class names looked up in a vector store."""

    def __init__(self, store: VectorStore, title: str, aliases: Mapping[str, str] | None = None) -> None:
        self.store = store
        self.title = title
        self.lookup = Lookup(store, aliases)

    def vectors(self, names: Sequence[str]) -> LabelEmbeddings:
        matches, notes = self.lookup.find_all(names)
        unused = [f"alias {name!r} is of no class." for name in self.lookup.unused_aliases(names)]
        return LabelEmbeddings(
            names=tuple(names),
            matrix=unit_rows(np.stack([self._vector(match) for match in matches])),
            terms=tuple(match.term for match in matches),
            routes=tuple(match.how for match in matches),
            source=f"{self.title} ({self.store.dim}-d, {self.store.size:,} terms)",
            default_eps=self.store.default_eps,
            notes=(*notes, *unused),
        )

    def find(self, name: str) -> Match | None:
        """One name by itself."""
        return self.lookup.find(name)

    def nearest(self, match: Match, n: int) -> list[tuple[str, float]]:
        """The terms nearest to a match, without its own."""
        near = self.store.nearest(self._vector(match), n + len(match.terms)) if n else []
        return [(term, cosine) for term, cosine in near if term not in match.terms][:n]

    def _vector(self, match: Match) -> NDArray[np.float32]:
        """(d,)"""
        mean = unit_rows(self.store.vectors(match.terms).mean(axis=0, keepdims=True))[0]
        return turned(mean, match.name) if match.turned else mean


def store_source(folder: Path | None, aliases: Mapping[str, str] | None = None) -> StoreSource:
    """The store in a folder, or the bundled one."""
    if folder is None:
        return StoreSource(bundled_store(), "bundled store", aliases)
    return StoreSource(VectorStore.open(folder), f"store {folder.name}", aliases)


def turned(vector: NDArray[np.float32], name: str) -> NDArray[np.float32]:
    """(d,) a unit vector turned to cosine `TURN`, in a direction that depends on the name alone."""
    digest = np.frombuffer(shake_256(name.encode(errors="surrogatepass")).digest(len(vector) // 8 + 1), dtype=np.uint8)
    direction = 1.0 - 2.0 * np.unpackbits(digest)[: len(vector)]
    direction -= (direction @ vector) * vector
    direction /= np.linalg.norm(direction)
    moved: NDArray[np.float32] = (TURN * vector + np.sqrt(1 - TURN**2) * direction).astype(np.float32)
    return moved


@dataclass(frozen=True)
class MatrixSource:
    """A matrix the user brings (.npy, .csv, .txt): a row a class, by name or else in class order."""

    path: Path

    def vectors(self, names: Sequence[str]) -> LabelEmbeddings:
        rows = read_rows(self.path)
        title = f"matrix {self.path.name} ({rows.values.shape[1]}-d)"
        return _from_rows(names, rows, rows.values, title, "row")


@dataclass(frozen=True)
class AttributeSource:
    """Attributes of each class (the paper: CUB-200's 312), reduced by PCA over all rows of the file."""

    path: Path
    dim: int = 128

    def vectors(self, names: Sequence[str]) -> LabelEmbeddings:
        rows = read_rows(self.path)
        if len(rows.values) < 3:
            raise UserError(f"{self.path} has {len(rows.values)} rows; a PCA of attributes needs at least 3.")
        reduced = principal_components(rows.values, self.dim)
        title = f"attributes {self.path.name} ({rows.values.shape[1]}, by PCA {reduced.shape[1]}-d)"
        return _from_rows(names, rows, reduced, title, "attributes")


def principal_components(values: NDArray[np.float64], dim: int) -> NDArray[np.float64]:
    """(R, min(dim, R - 1, a)) scores on the first principal components."""
    from sklearn.decomposition import PCA

    components = min(dim, len(values) - 1, values.shape[1])
    scores: NDArray[np.float64] = PCA(n_components=components, svd_solver="full").fit_transform(values)
    return scores


def _from_rows(
    names: Sequence[str], rows: NamedRows, vectors: NDArray[np.float64], title: str, route: str
) -> LabelEmbeddings:
    check_names(names)
    places = row_places(names, rows)
    matrix = unit(vectors[places], names, str(rows.path))
    eps = eps_for_share(matrix)
    return LabelEmbeddings(
        names=tuple(names),
        matrix=matrix,
        terms=tuple(names if rows.names is None else (rows.names[i] for i in places)),
        routes=(f"{route} by {'order' if rows.names is None else 'name'}",) * len(names),
        source=f"{title}; eps {eps:.3f} for the paper's share of neighbours",
        default_eps=eps,
        notes=twins(names, matrix),
    )


def unit(vectors: NDArray[np.floating[Any]], names: Sequence[str], source: str) -> Matrix:
    """(K, d) L2-normalised; a row without a direction cannot be a target."""
    lengths = np.linalg.norm(vectors, axis=1)
    flat = np.flatnonzero(lengths <= 1e-12 * max(1.0, float(lengths.max())))
    if flat.size:
        raise UserError(f"{source}: the vector of class {names[flat[0]]!r} is zero, so it points nowhere.")
    rows: Matrix = (vectors / lengths[:, None]).astype(np.float32)
    return rows


def twins(names: Sequence[str], matrix: Matrix) -> tuple[str, ...]:
    """A note for each set of classes with one and the same vector."""
    near = np.triu(distances(matrix) < SAME, k=1)
    firsts = [i for i in range(len(names)) if near[i].any() and not near[:, i].any()]
    sets = [sorted([names[i], *(names[j] for j in np.flatnonzero(near[i]).tolist())]) for i in firsts]
    return tuple(
        f"the vectors of {' and '.join(map(repr, same))} are the same: the semantic head cannot tell them apart."
        for same in sets
    )


def row_places(names: Sequence[str], rows: NamedRows) -> list[int]:
    """The row of each class: by name where the file has names, else in order."""
    if rows.names is None:
        if len(names) != len(rows.values):
            raise UserError(
                f"{rows.path} has {len(rows.values)} rows without names, but there are {len(names)} classes;"
                " give a row a class in class order, or a first column with class names."
            )
        return list(range(len(names)))
    by_name = {name: i for i, name in reversed(list(enumerate(rows.names)))}
    by_key = {key: i for name, i in by_name.items() for key in spellings(name)}
    return [_row_place(name, by_name, by_key, rows.path) for name in names]


def _row_place(name: str, by_name: Mapping[str, int], by_key: Mapping[str, int], path: Path) -> int:
    keys = [key for key in spellings(name) if key in by_key]
    if name in by_name:
        return by_name[name]
    if keys:
        return by_key[keys[0]]
    raise UserError(f"{path} has no row for class {name!r}{nearest(name, by_name) or '; add one.'}")
