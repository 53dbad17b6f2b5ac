"""Label sources: a vector store, class attributes, or a matrix of the user.

The scale of cosines differs between sources, so each source has its own default eps. A store has the one it was built
with; for attributes and matrices it is the eps at which the share of neighbouring class pairs is the same as in the
paper's groups of CIFAR-100 (`distances.eps_for_share`).

Shapes: K classes, d embedding size, R rows of a file, a columns of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import shake_256
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from semco.data.names import is_none_of_these, readable_class
from semco.errors import UserError, nearest
from semco.labels import sentences
from semco.labels.embeddings import LabelEmbeddings, LabelSource, Matrix
from semco.labels.eps import distances, eps_for_share
from semco.labels.matching.lookup import Lookup, Match, check_names
from semco.labels.matching.notes import alias_advice
from semco.labels.matching.routes import OWN_VECTOR, SENTENCE
from semco.labels.matching.spelling import is_readable, spellings
from semco.labels.store import VectorStore, bundled_store, plain_store, unit_rows
from semco.labels.tables import NamedRows, read_rows

SAME_DISTANCE = 1e-6  # vectors with a smaller cosine distance count as equal
THEME_CLASSES = 5  # fewer classes have no theme
THEME_COSINE = 0.2  # median cosine of two classes of one theme; without a theme it is about 0
LONELY_COSINE = 0.25  # a class whose largest cosine is lower may be read in a wrong sense
ROTATED_COSINE = 0.98  # cosine between the vector of a term and that of a class that shares the term with another


@dataclass(frozen=True)
class Neighbours:
    """The match of a class name, and the terms nearest to it with their cosines."""

    match: Match
    nearest: tuple[tuple[str, float], ...]

    def as_dict(self) -> dict[str, Any]:
        """Return the term, the route and the nearest terms for JSON output."""
        match = self.match
        return {
            "term": match.term,
            "route": match.how,
            "confidence": match.confidence,
            "nearest": dict(self.nearest),
        }


class StoreSource:
    """Label vectors from a vector store, in which class names are looked up."""

    def __init__(
        self,
        store: VectorStore,
        title: str,
        aliases: Mapping[str, str] | None = None,
        is_strict: bool = False,
        has_places: bool = False,
    ) -> None:
        """``has_places``: unknown names are placed by the sentence encoder, whose map is that of the bundled store."""
        self._has_places = has_places
        self._places: dict[str, NDArray[np.float32]] = {}
        self.store = store
        self.title = title
        self.lookup = Lookup(store, aliases, is_strict)

    def vectors(self, names: Sequence[str]) -> LabelEmbeddings:
        """Return the label vectors of the names; an unknown name gets one of its own, or is a `UserError` if strict."""
        matches, notes = self._find_all(names)
        unused = [f"the alias {name!r} belongs to no class." for name in self.lookup.unused_aliases(names)]
        matrix = unit_rows(np.stack([self._vector(match) for match in matches]))
        return LabelEmbeddings(
            names=tuple(names),
            matrix=matrix,
            terms=tuple(match.term for match in matches),
            routes=tuple(match.how for match in matches),
            source=f"{self.title} ({self.store.dim}-d, {self.store.size:,} terms)",
            default_eps=self.store.default_eps,
            notes=(*notes, *doubtful_notes(matches, matrix), *unused),
        )

    def neighbours(self, names: Sequence[str], n: int) -> tuple[list[Neighbours], list[str]]:
        """Return the match of each name in a run with these names, with its ``n`` nearest terms, and notes.

        The least reliable matches come first.
        """
        matches, notes = self._find_all(names)
        matrix = np.stack([self._vector(match) for match in matches])
        found = [Neighbours(match, () if match.route == OWN_VECTOR else self._nearest(match, n)) for match in matches]
        found.sort(key=lambda one: one.match.confidence)
        return found, [*notes, *doubtful_notes(matches, matrix)]

    def _find_all(self, names: Sequence[str]) -> tuple[list[Match], list[str]]:
        """Return the matches and notes of the look-up; names that only the sentence encoder knows get its vectors."""
        return self.lookup.find_all(names, self._place if self._has_places else None)

    def _place(self, unknown: Sequence[str]) -> Mapping[str, NDArray[np.float32]]:
        self._places = _sure_places([name for name in unknown if is_readable(name)])
        return self._places

    def _nearest(self, match: Match, n: int) -> tuple[tuple[str, float], ...]:
        """Return the ``n`` terms nearest to a match, without its own terms."""
        near = self.store.nearest(self._vector(match), n + len(match.terms)) if n else []
        return tuple((term, cosine) for term, cosine in near if term not in match.terms)[:n]

    def _vector(self, match: Match) -> NDArray[np.float32]:
        """Return the unit vector (d,) of a match."""
        if match.route == SENTENCE:
            return self._places[match.name]
        if not match.terms:
            return signs(match.name, self.store.dim) / np.float32(np.sqrt(self.store.dim))
        mean: NDArray[np.float32] = unit_rows(self.store.vectors(match.terms).mean(axis=0, keepdims=True))[0]
        return rotated(mean, match.name) if match.is_shared else mean


def _sure_places(names: Sequence[str]) -> dict[str, NDArray[np.float32]]:
    """Return the places of the names of which the sentence encoder is sure."""
    if not names:
        return {}
    vectors, is_sure = sentences.places([" ".join(readable_class(name).replace("_", " ").split()) for name in names])
    return {name: vector for name, vector, sure in zip(names, vectors, is_sure.tolist(), strict=True) if sure}


def doubtful_notes(matches: Sequence[Match], matrix: Matrix) -> list[str]:
    """Return a note for each class whose term is close to no other class, while the others are close to each other.

    Its word may have another sense: beside Braeburn and Granny Smith, Conference is a pear, not a meeting.
    """
    known = [i for i, match in enumerate(matches) if match.terms and match.route != "alias"]
    if len(known) < THEME_CLASSES:
        return []
    cosines = matrix[known] @ matrix[known].T
    np.fill_diagonal(cosines, np.nan)
    if np.nanmedian(cosines) < THEME_COSINE:
        return []
    lonely = [known[i] for i in np.flatnonzero(np.nanmax(cosines, axis=1) < LONELY_COSINE).tolist()]
    return [
        f"class {matches[i].name!r} was looked up as {matches[i].term!r}, whose meaning is far from all other class "
        "names, while those are close to each other: the vocabulary may know the word in another sense than yours. If "
        f"so, {alias_advice(matches[i].name)} (`semco labels lookup TERM` shows what is nearest to it); otherwise "
        "ignore this note."
        for i in lonely
    ]


def store_source(
    store: Path | str | None,
    aliases: Mapping[str, str] | None = None,
    is_strict: bool = False,
    unknown_names: Literal["encode", "own"] = "encode",
) -> StoreSource:
    """Return the store in a folder as a label source; "plain" and None (bundled) are those that come with SemCo."""
    if store is None:
        has_places = unknown_names == "encode" and not is_strict and sentences.is_installed()
        return StoreSource(bundled_store(), "bundled store", aliases, is_strict, has_places)
    if store == "plain":
        return StoreSource(plain_store(), "plain store", aliases, is_strict)
    folder = Path(store)
    return StoreSource(VectorStore.open(folder), f"store {folder.name}", aliases, is_strict)


def signs(name: str, size: int) -> NDArray[np.float32]:
    """Return ``size`` numbers 1 or -1 that depend only on the name, so that they are the same on every machine."""
    digest = np.frombuffer(shake_256(name.encode(errors="surrogatepass")).digest(size // 8 + 1), dtype=np.uint8)
    return 1 - 2 * np.unpackbits(digest)[:size].astype(np.float32)


def rotated(vector: NDArray[np.float32], name: str) -> NDArray[np.float32]:
    """Return a unit vector (d,) rotated to the cosine `ROTATED_COSINE`, in a direction determined by the name."""
    direction = signs(name, len(vector)).astype(np.float64)
    direction -= (direction @ vector) * vector
    direction /= np.linalg.norm(direction)
    sine = np.sqrt(1 - ROTATED_COSINE**2)
    result: NDArray[np.float32] = (ROTATED_COSINE * vector + sine * direction).astype(np.float32)
    return result


@dataclass(frozen=True)
class MatrixSource:
    """Label vectors from a file of the user (.npy, .csv, .txt): one row per class, by name or in class order."""

    path: Path

    def vectors(self, names: Sequence[str]) -> LabelEmbeddings:
        """Return the rows of the classes, L2-normalised."""
        rows = read_rows(self.path)
        title = f"matrix {self.path.name} ({rows.values.shape[1]}-d)"
        return _from_rows(names, rows, rows.values, title, "row")


@dataclass(frozen=True)
class AttributeSource:
    """Label vectors from class attributes (in the paper, 312 for CUB-200), reduced by PCA over all rows of the file."""

    path: Path
    dim: int = 128

    def vectors(self, names: Sequence[str]) -> LabelEmbeddings:
        """Return the principal components of the classes' attributes, L2-normalised."""
        rows = read_rows(self.path)
        if len(rows.values) < 3:
            raise UserError(f"{self.path} has {len(rows.values)} rows; a PCA of attributes needs at least 3.")
        reduced = principal_components(rows.values, self.dim)
        title = f"attributes {self.path.name} ({rows.values.shape[1]}, by PCA {reduced.shape[1]}-d)"
        return _from_rows(names, rows, reduced, title, "attributes")


def principal_components(values: NDArray[np.float64], dim: int) -> NDArray[np.float64]:
    """Return the scores (R, min(dim, R - 1, a)) on the first principal components."""
    from sklearn.decomposition import PCA

    components = min(dim, len(values) - 1, values.shape[1])
    scores: NDArray[np.float64] = PCA(n_components=components, svd_solver="full").fit_transform(values)
    return scores


def _from_rows(
    names: Sequence[str], rows: NamedRows, vectors: NDArray[np.float64], title: str, route: str
) -> LabelEmbeddings:
    check_names(names)
    positions = row_positions(names, rows)
    matrix = unit_vectors(vectors[positions], names, str(rows.path))
    eps = eps_for_share(matrix)
    return LabelEmbeddings(
        names=tuple(names),
        matrix=matrix,
        terms=tuple(names if rows.names is None else (rows.names[i] for i in positions)),
        routes=(f"{route} by {'order' if rows.names is None else 'name'}",) * len(names),
        source=f"{title}; eps {eps:.3f} gives the paper's share of neighbouring pairs",
        default_eps=eps,
        notes=duplicate_notes(names, matrix),
    )


def unit_vectors(vectors: NDArray[np.floating[Any]], names: Sequence[str], source: str) -> Matrix:
    """Return the rows (K, d) L2-normalised; a zero row is a `UserError`, because it has no direction."""
    lengths = np.linalg.norm(vectors, axis=1)
    flat = np.flatnonzero(lengths <= 1e-12 * max(1.0, float(lengths.max())))
    if flat.size:
        raise UserError(
            f"{source}: the vector of class {names[flat[0]]!r} is zero; give every class a vector that is not zero."
        )
    rows: Matrix = (vectors / lengths[:, None]).astype(np.float32)
    return rows


def duplicate_notes(names: Sequence[str], matrix: Matrix) -> tuple[str, ...]:
    """Return a note for each set of classes with equal vectors."""
    near = np.triu(distances(matrix) < SAME_DISTANCE, k=1)
    firsts = [i for i in range(len(names)) if near[i].any() and not near[:, i].any()]
    sets = [sorted([names[i], *(names[j] for j in np.flatnonzero(near[i]).tolist())]) for i in firsts]
    return tuple(
        f"the vectors of {' and '.join(map(repr, same))} are equal: the semantic head cannot separate these classes."
        for same in sets
    )


def row_positions(names: Sequence[str], rows: NamedRows) -> list[int]:
    """Return the row of each class: by name if the file has names, otherwise in order."""
    if rows.names is None:
        if len(names) != len(rows.values):
            raise UserError(
                f"{rows.path} has {len(rows.values)} rows without names, but there are {len(names)} classes;"
                " give one row per class in class order, or add a first column with class names."
            )
        return list(range(len(names)))
    by_name = {name: i for i, name in reversed(list(enumerate(rows.names)))}
    by_key = {key: i for name, i in by_name.items() for key in spellings(name)}
    return [_row_position(name, by_name, by_key, rows.path) for name in names]


def _row_position(name: str, by_name: Mapping[str, int], by_key: Mapping[str, int], path: Path) -> int:
    keys = [key for key in spellings(name) if key in by_key]
    if name in by_name:
        return by_name[name]
    if keys:
        return by_key[keys[0]]
    raise UserError(f"{path} has no row for class {name!r}{nearest(name, by_name) or '; add one.'}")


@dataclass(frozen=True)
class BesideNone:
    """Takes the vectors of all classes except "none of these" from another source."""

    source: LabelSource

    def vectors(self, names: Sequence[str]) -> LabelEmbeddings:
        """Return the label vectors of the names."""
        none = [is_none_of_these(name) for name in names]
        if not any(none) or all(none):
            return self.source.vectors(names)
        found = self.source.vectors([name for name in names if not is_none_of_these(name)])
        size = found.matrix.shape[1]
        matrix = np.stack([signs(name, size) / np.float32(np.sqrt(size)) for name in names])
        matrix[~np.asarray(none)] = found.matrix
        terms, routes = iter(found.terms), iter(found.routes)
        return replace(
            found,
            names=tuple(names),
            matrix=matrix,
            terms=tuple("" if each else next(terms) for each in none),
            routes=tuple(OWN_VECTOR if each else next(routes) for each in none),
        )
