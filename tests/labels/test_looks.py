"""The map from names to looks: a small one by hand, and what the bundled one says."""

from __future__ import annotations

from math import sqrt
from pathlib import Path

import numpy as np
import pytest

from semco.data.class_names import CIFAR10, CIFAR100
from semco.data.wordnet import listed_names, wordnet_names
from semco.labels import looks
from semco.labels.dictionary import RARER, dictionary
from semco.labels.matching.spelling import spell
from semco.labels.store import VectorStore, bundled_store

EXCLUDED = {wordnet_names()[one] for one in listed_names("mini_imagenet")} | set(CIFAR10) | set(CIFAR100)


def test_the_similarity_of_two_nouns_by_hand() -> None:
    """Vectors + kinds + half the definitions, each a cosine; without a sense only the vectors count."""
    book = dictionary()
    rows = np.array([[1, 0], [0.6, 0.8], [0, 1]], dtype=np.float32)
    found = looks.features(rows, ["golden_retriever", "labrador_retriever", None])
    kinds = []
    for noun in ("golden_retriever", "labrador_retriever"):
        [(node, _)] = book.senses_of(noun)
        kinds.append({above: float(book.content[above]) for above in book.ancestors(node)})
    dot = sum(kinds[0][one] * kinds[1].get(one, 0) for one in kinds[0])
    lengths = [sqrt(sum(value**2 for value in one.values())) for one in kinds]
    texts = [book.definitions[[book.senses_of(noun)[0][0]]] for noun in ("golden_retriever", "labrador_retriever")]
    definition = (texts[0] @ texts[1].T).toarray()[0, 0]
    expected = 0.6 + dot / lengths[0] / lengths[1] + looks.DEFINITION * definition
    assert found.similarity(found)[0, 1] == pytest.approx(expected, abs=1e-5)
    assert found.similarity(found)[0, 2] == pytest.approx(0)


def test_rarer_senses_count_less() -> None:
    weights = dict(looks._weighted_senses(dictionary(), "crane"))
    ranks = dict(dictionary().senses_of("crane"))
    assert sum(weights.values()) == pytest.approx(1)
    first, second = sorted(ranks, key=ranks.__getitem__)[:2]
    assert weights[second] / weights[first] == pytest.approx(RARER ** (2 * (ranks[second] - ranks[first])))


def test_places_are_weighted_sums_over_the_classes_of_the_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    VectorStore.write(tmp_path / "s", ["xa", "xb", "xc"], np.array([[1, 0], [0, 1], [0.6, 0.8]]), range(3), {})
    store = VectorStore.open(tmp_path / "s")
    small = looks.LooksMap(("xa", "xb", "not in the store"), np.array([[3, 0], [0, 1], [5, 5]], dtype=np.float32))
    monkeypatch.setattr(looks, "looks_map", lambda: small)
    found = looks.places(store, store.vectors(["xc", "xa"]), ["xc", None])
    expected = np.array([0.6 * 3, 0.8 * 1])  # no noun of the dictionary: only the vectors count
    assert found[0].tolist() == pytest.approx((expected / np.linalg.norm(expected)).tolist(), abs=1e-3)
    assert found[1].tolist() == [0, 0]


def test_the_data_sets_of_the_paper_are_not_in_the_map() -> None:
    terms = looks.looks_map().terms
    assert len(terms) > 800
    assert not {spell(term) for term in terms} & set(map(spell, EXCLUDED))


@pytest.mark.parametrize(
    ("near", "far"),
    [
        (("trombone", "cornet"), ("trombone", "harmonica")),  # in the fit: two of brass, one that looks different
        (("clementine", "satsuma"), ("clementine", "celery")),  # not in it
        (("tablespoon", "teaspoon"), ("tablespoon", "saucepan")),
    ],
)
def test_what_looks_alike(near: tuple[str, str], far: tuple[str, str]) -> None:
    store = bundled_store()

    def cosine(pair: tuple[str, str]) -> float:
        rows = looks.places(store, store.vectors(pair), pair)
        return float(rows[0] @ rows[1])

    assert cosine(near) > cosine(far) + 0.2
