"""Common class names in the bundled store."""

from __future__ import annotations

import pytest

from semco.config import LabelsConfig
from semco.data.class_names import CIFAR10, CIFAR100, FASHION
from semco.errors import UserError
from semco.groups.grouping import group_classes
from semco.labels import label_source
from semco.labels.matching.lookup import Lookup
from semco.labels.store import bundled_store


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
