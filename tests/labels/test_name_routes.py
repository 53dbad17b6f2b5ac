"""Class names of real tasks, as the bundled store reads them: the term, or none for a vector of the name's own."""

from __future__ import annotations

from importlib.resources import files

import numpy as np
import pytest

from semco.config import LabelsConfig, configure
from semco.data.class_names import CIFAR10, CIFAR100, FASHION
from semco.errors import UserError
from semco.groups.grouping import group_classes
from semco.labels import label_source
from semco.labels.matching.lookup import Lookup
from semco.labels.matching.routes import LOW_CONFIDENCE, is_likely_typo
from semco.labels.matching.spelling import is_code
from semco.labels.sources import store_source
from semco.labels.store import bundled_store

TERMS = {
    "The Mona Lisa": "mona+lisa",
    "power outlet": "outlet",
    "tennis racquet": "tennis_racquet",
    "cocktail shaker": "cocktail_shaker",
    "paint can": "paint+can",
    "bird in flight": "bird",
    "Cardinal": "cardinal",
    "dirty": "dirty",
    "defect": "defect",
    "hotdog": "hotdog",
    **{
        word: word
        for word in ("scratch", "melanoma", "pneumonia", "benign", "malignant", "invoice", "unripe", "intact")
    },
}
OWN_VECTORS = [
    *("no defect", "not ripe", "without helmet"),  # never what they deny
    *("covid", "nevus", "cockapoo", "selfie", "overripe"),  # not bovid, nexus, cockatoo, ripe
    *("Schmetterling", "pomme", "Hund"),  # not English, and no pommel
    *("type_A", "class 1", "IMG_001", "SKU-1042", "42"),  # codes
]


@pytest.mark.parametrize(("name", "term"), TERMS.items(), ids=TERMS.keys())
def test_names_are_read_as_meant(name: str, term: str) -> None:
    match = Lookup(bundled_store()).find(name)
    assert match is not None
    assert match.term == term
    assert match.confidence > LOW_CONFIDENCE


@pytest.mark.parametrize("name", OWN_VECTORS)
def test_names_that_would_be_guessed_wrongly(name: str) -> None:
    matches, notes = Lookup(bundled_store()).find_all([name, "dog"])
    assert matches[0].terms == ()
    assert "a vector of its own" in notes[0]


def test_the_names_of_domainnet() -> None:
    names = files("semco.data").joinpath("class_lists/domainnet.txt").read_text(encoding="utf-8").split()
    found = store_source(None).lookup.find_all(names)[0]
    assert len(found) == 345
    assert sum(match.confidence <= LOW_CONFIDENCE for match in found) <= 5


@pytest.mark.parametrize(
    "names",
    [("cat", "dog"), ("remote_control", "stethoscope"), ("triceratops", "green_mamba"), ("defect", "no defect")],
)
def test_names_that_are_no_look_alikes(names: tuple[str, ...]) -> None:
    assert group_classes(store_source(None).vectors(names)).count == 2


def test_gulls_and_woodpeckers() -> None:
    gulls = ("Herring Gull", "Ivory Gull", "Western Gull")
    woodpeckers = ("Downy Woodpecker", "Red_headed_Woodpecker")
    found = group_classes(store_source(None).vectors((*gulls, *woodpeckers, "Belted_Kingfisher")))
    assert gulls in found.members
    assert all(not {*gulls} & {*members} or not {*woodpeckers} & {*members} for members in found.members)


def test_another_sense_is_noted() -> None:
    names = ["Braeburn", "Granny Smith", "apple", "pear", "orange", "Conference"]
    (note,) = store_source(None).vectors(names).notes
    assert note == (
        "class 'Conference' was looked up as 'conference', whose meaning is far from all other class names, while "
        "those are close to each other: the vocabulary may know the word in another sense than yours. If so, choose a "
        "term with the setting 'labels.aliases={Conference: TERM}' (`semco labels lookup TERM` shows what is nearest "
        "to it); otherwise ignore this note."
    )
    alias = configure(settings=["labels.aliases={Conference: quince}"]).labels.aliases  # as the note says
    assert store_source(None, alias).vectors(names).notes == ()


def test_codes_get_vectors_that_are_far_apart() -> None:
    found = store_source(None).vectors([f"type_{letter}" for letter in "ABCDEFGH"])
    cosines = found.matrix @ found.matrix.T - np.eye(8)
    assert np.abs(cosines).max() < 0.4
    assert group_classes(found).count == 8
    assert is_code("model_t")
    assert not is_code("type_writer")


@pytest.mark.parametrize(
    ("word", "meant", "is_typo"),
    [
        ("elehpant", "elephant", True),  # swapped
        ("zebraa", "zebra", False),  # the end
        ("girafe", "giraffe", True),  # not doubled
        ("telephome", "telephone", True),  # n is beside m
        ("elaphant", "elephant", True),  # vowels
        ("cockapoo", "cockatoo", False),
        ("nevus", "nexus", False),
        ("pomme", "pommel", False),
    ],
)
def test_likely_typos(word: str, meant: str, is_typo: bool) -> None:
    assert is_likely_typo(word, meant) is is_typo


@pytest.mark.parametrize("names", [FASHION, CIFAR10, CIFAR100], ids=["fashion", "cifar10", "cifar100"])
def test_every_class_of_a_known_data_set_has_a_term_of_its_own(names: tuple[str, ...]) -> None:
    found = label_source(LabelsConfig()).vectors(names)
    assert len(set(found.terms)) == len(names)
    assert not any("shared" in route for route in found.routes)
    assert group_classes(found).notes == ()


@pytest.mark.parametrize(
    ("name", "terms"),
    [
        ("aquarium_fish", {"aquarium_fish", "fish"}),
        ("sweet_pepper", {"sweet_pepper", "pepper"}),
        ("hen of the woods", {"hen_of_woods", "hen"}),
        ("jack-o'-lantern", {"jack_o'_lantern", "jack_o_lantern", "lantern"}),
        ("T-shirt/top", {"t_shirt"}),
        ("rollerskates", {"roller_skate"}),
        ("waterslide", {"slide"}),
        ("great wall of china", {"great_wall_of_china", "great_wall"}),
        ("elehpant", {"elephant"}),
        ("golden retreiver", {"golden_retriever", "retriever"}),
        ("mice", {"mice", "mouse"}),
    ],
)
def test_names_that_are_not_found_exactly(name: str, terms: set[str]) -> None:
    match = Lookup(bundled_store()).find(name)
    assert match is not None
    assert match.term in terms


@pytest.mark.parametrize("name", ["Schmetterling", "EntleBucher", "qwrtzp", "🐶", "x" * 1000])
def test_unknown_names(name: str) -> None:
    with pytest.raises(UserError, match="is not in the vocabulary"):
        Lookup(bundled_store(), is_strict=True).find_all([name])
    assert Lookup(bundled_store()).find_all([name])[0][0].route == "own vector"


def test_the_ten_classes_of_cifar_10_are_ten_groups() -> None:
    """As in the paper: a cat is no dog."""
    assert group_classes(label_source(LabelsConfig()).vectors(CIFAR10)).count == 10
