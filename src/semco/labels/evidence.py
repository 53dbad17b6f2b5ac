"""The evidence that two classes look alike: their vectors, the graph of the store, the dictionary, looks and captions.

    evidence = cosine - mean of the two terms' densities
               + knowledge x (relation + 0.8 looks
                              + weight of the senses x (0.35 shared kin + 0.15 (one is kin of the other)))

The density of a term is its mean cosine with the ten nearest of the store's frequent terms. Names of a crowded topic
(birds, clothes) are close to everything there, so the same cosine says less among them than elsewhere. The relation of
two terms is what they have in common in a dictionary, as kinds of things and by their definitions (`dictionary`). What
two terms share in the graph says the more, the fewer other terms have it (`kin`). The graph does not know senses, so it
counts as much as the senses in which the dictionary relates the terms: a dog is hardly a hot dog. The looks are the
cosine of the places that a map from names to image classifiers gives them (`looks`). The knowledge is 1; 0.8 if of one
of the names only a part is known; 0.5 if of both: of a milk carton and an egg carton the cartons are alike, and nothing
says what the rest changes. Two animals or plants keep 0.8, because two gulls do look alike. If captions of photos say
something about both names (`looks.captions`), their cosine counts most:

    0.7 x evidence + 1.6 x cosine of the captions - 0.35

The weights are those of logistic regressions on the tuning half of the list of look-alikes (`look_alikes`), rounded.

Shapes: K classes, d embedding size, b frequent terms.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from semco.labels.dictionary import Dictionary, dictionary
from semco.labels.dictionary.relations import relations
from semco.labels.embeddings import Matrix
from semco.labels.looks import places as look_places
from semco.labels.looks.captions import caption_cosines
from semco.labels.store import VectorStore

SHARED, DIRECT, LOOKS = 0.35, 0.15, 0.8  # weights; a cosine has weight 1
IN_PART, BOTH_IN_PART = 0.8, 0.5  # knowledge of a pair with a name, or two, of which only a part is known
# Where captions know both names: the weight of all else, that of their cosine, and a constant.
BESIDE_CAPTIONS, CAPTIONS, OFFSET = 0.7, 1.6, -0.35
NEIGHBOURS = 10  # frequent terms whose mean cosine is a term's density
MOST_CLASSES = 2_000  # with more classes, tables of all pairs (and of all pairs of senses) would take gigabytes
SAME_TERM = 0.999  # a cosine above this is the term itself

Square = NDArray[np.float64]


@dataclass(frozen=True)
class Evidence:
    """The evidence for each pair of classes, and what it consists of."""

    local: Square  # (K, K) cosine minus density
    relation: Square  # (K, K) what the terms have in common in the dictionary
    shared: Square  # (K, K) weight of shared kin
    direct: Square  # (K, K) 1 if one is kin of the other; both count less for rare senses
    looks: Square  # (K, K) cosine of the guessed looks
    knowledge: Square  # (K, K) how much all but `local` counts
    captions: Square  # (K, K) cosine by the captions of photos, NaN where they do not know both
    reasons: Mapping[tuple[int, int], str] = field(default_factory=dict)  # of related classes i < j, for people

    @cached_property
    def total(self) -> Square:
        """The evidence (K, K)."""
        about_things = self.relation + SHARED * self.shared + DIRECT * self.direct + LOOKS * self.looks
        found = self.local + self.knowledge * about_things
        both = BESIDE_CAPTIONS * found + CAPTIONS * self.captions + OFFSET
        return np.where(np.isnan(self.captions), found, both)


def store_evidence(
    store: VectorStore, matrix: Matrix, terms: Sequence[str | None], is_part: Sequence[bool]
) -> Evidence | None:
    """Return the evidence for the classes of unit vectors (K, d) and terms, which may stand for a part of their names.

    None if the store has no kin or there are too many classes; they are then grouped by their cosines (DBSCAN).
    """
    if store.kin is None or len(terms) > MOST_CLASSES:
        return None
    places, book = [None if term is None else store.index(term) for term in terms], dictionary()
    related = relations(book, terms)
    weight = related.weight.astype(np.float64)
    shared, direct = store.kin.shared(places) * weight, store.kin.direct(places) * weight
    density = densities(matrix, store.frequent_vectors())
    local = (matrix @ matrix.T).astype(np.float64) - (density[:, None] + density) / 2
    looks = look_places(store, matrix, terms)
    return Evidence(
        local,
        related.total.astype(np.float64),
        shared,
        direct,
        (looks @ looks.T).astype(np.float64),
        knowledge(book, terms, is_part),
        caption_cosines([None if part else term for term, part in zip(terms, is_part, strict=True)]),
        _reasons(store, places, (shared > 0) | (direct > 0)),
    )


def knowledge(book: Dictionary, terms: Sequence[str | None], is_part: Sequence[bool]) -> Square:
    """Return how much is known of each pair of names (K, K), given their terms, which may be a part of the name."""
    nouns = [term or "" for term in terms]
    in_part = np.asarray([part or book.has_only_end(noun) for noun, part in zip(nouns, is_part, strict=True)])
    is_living = np.asarray([book.is_living(noun) for noun in nouns])
    both = (in_part[:, None] & in_part) & ~(is_living[:, None] & is_living)
    return np.where(both, BOTH_IN_PART, np.where(in_part[:, None] | in_part, IN_PART, 1.0))


def densities(matrix: Matrix, frequent: NDArray[np.float32]) -> Square:
    """Return the mean cosine (K,) of unit rows (K, d) with the nearest of ``frequent`` (b, d), without the term."""
    cosines = matrix @ frequent.T  # (K, b)
    cosines = np.where(cosines > SAME_TERM, -1.0, cosines)
    nearest = np.sort(cosines, axis=1)[:, -NEIGHBOURS:]
    found: Square = nearest.mean(axis=1, dtype=np.float64)
    return found


def _reasons(
    store: VectorStore, places: Sequence[int | None], related: NDArray[np.bool_]
) -> dict[tuple[int, int], str]:
    """Return what the graph says about each pair of related classes."""
    assert store.kin is not None
    found = {}
    for i, j in np.argwhere(np.triu(related, 1)).tolist():
        a, b = places[i], places[j]
        assert a is not None
        assert b is not None
        if b in store.kin.of(a) or a in store.kin.of(b):
            found[i, j] = f"{store.term(a)} - {store.term(b)}"
        else:
            found[i, j] = "both " + ", ".join(store.term(term) for term in store.kin.common(a, b)[:2])
    return found
