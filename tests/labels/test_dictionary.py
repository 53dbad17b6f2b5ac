"""The dictionary of things: a small one by hand, and what the bundled one says."""

from __future__ import annotations

from math import log, sqrt
from pathlib import Path

import numpy as np
import pytest

from semco.labels.dictionary import RARER, Dictionary, dictionary, write_dictionary
from semco.labels.dictionary.relations import DEFINITION, KIND, NAMED, Senses, relations, sense_weights

# thing > animal > (bat, mouse); thing > club (a bat, in its second sense). Definitions: bat "flying mouse night",
# mouse "small", club "hit".
SMALL = Dictionary(
    nouns=["bat", "club", "mouse"],
    sense_offsets=np.array([0, 2, 3, 4], np.int32),
    senses=np.array([2, 4, 4, 3], np.int32),
    ranks=np.array([0, 1, 0, 0], np.uint8),
    parent_offsets=np.array([0, 0, 1, 2, 3, 4], np.int32),
    parents=np.array([0, 1, 1, 0], np.int32),
    below=np.array([5, 3, 1, 1, 1], np.int32),
    words=["flying", "hit", "mouse", "small"],
    gloss_offsets=np.array([0, 0, 0, 2, 3, 4], np.int32),
    gloss=np.array([0, 2, 3, 1], np.uint16),
)
ANIMAL = 1 - log(3) / log(5)  # information content


def test_kinds_by_hand() -> None:
    assert SMALL.content.tolist() == pytest.approx([0, ANIMAL, 1, 1, 1])
    assert SMALL.ancestors(2) == {2, 1, 0}
    nodes = np.array([2, 3, 4], np.int32)
    found = SMALL.kinds(nodes, SMALL.common(nodes))
    assert found[0].tolist() == pytest.approx([1, ANIMAL, 0])  # leaves have 1: 2 c / (1 + 1)


def test_definitions_have_length_one() -> None:
    rows = SMALL.definitions.toarray()
    assert rows[2].tolist() == pytest.approx([1 / sqrt(2), 0, 1 / sqrt(2), 0])
    assert rows[3].tolist() == pytest.approx([0, 0, 0, 1])


def test_the_weights_of_senses_by_hand() -> None:
    """One noun with two senses, and four with one: the sense that is of a kind with three of them is the better one.

    The nearest class does not count, so that two classes alone cannot agree on a rare sense.
    """
    senses = Senses(np.arange(6, dtype=np.int32), np.array([0, 1, 0, 0, 0, 0], np.int32), np.array([0, 0, 1, 2, 3, 4]))
    kinds = np.zeros((6, 6), np.float32)
    kinds[0, 2:] = 0.1, 0.1, 0.1, 1.0
    kinds[1, 2:] = 0.6, 0.3, 0.3, 0.3
    found = sense_weights(kinds + kinds.T, senses)
    assert found[:2].tolist() == pytest.approx([0.1 / (RARER * 0.3), 1])
    assert found[2:].tolist() == [1, 1, 1, 1]


def test_relations_by_hand() -> None:
    """The definition of the bat names the mouse; in its second sense, the bat is a club."""
    found = relations(SMALL, ["bat", "mouse", "club", None, "unknown"])
    # With three nouns, what is left without the nearest is 0 for both senses of the bat: only the ranks count.
    assert found.total[0].tolist() == pytest.approx([0, KIND * ANIMAL + NAMED, RARER * (KIND + DEFINITION), 0, 0])
    assert found.weight[0].tolist() == pytest.approx([1, 1, RARER, 1, 1])
    assert found.total[1, 2] == 0  # nothing in common but to be a thing
    assert np.allclose(found.total, found.total.T)


def test_the_kind_of_two_nouns() -> None:
    assert SMALL.nearest_kind("bat", "club") == "club"
    assert SMALL.nearest_kind("bat", "unknown") is None


def test_a_dictionary_is_read_as_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_dictionary(tmp_path / "small.npz", SMALL)
    monkeypatch.setattr("semco.labels.dictionary.FILE", tmp_path / "small.npz")
    again = dictionary.__wrapped__()
    assert (again.nouns, again.words) == (SMALL.nouns, SMALL.words)
    assert np.array_equal(relations(again, ["bat", "club"]).total, relations(SMALL, ["bat", "club"]).total)


@pytest.mark.parametrize(
    ("near", "far"),
    [
        (("butterfly", "moth"), ("butterfly", "bus")),
        (("bee", "hornet"), ("bee", "bread")),
        (("fir", "spruce"), ("fir", "fur")),
        (("cardigan", "sweater"), ("cardigan", "stethoscope")),
        (("crane", "heron"), ("crane", "bread")),  # not the first sense of crane
        (("man", "woman"), ("rat", "man")),  # a rat is an animal, though it may be a person
    ],
)
def test_the_bundled_dictionary(near: tuple[str, str], far: tuple[str, str]) -> None:
    assert relations(dictionary(), near).total[0, 1] > relations(dictionary(), far).total[0, 1] + 0.15


def test_common_kinds_of_the_bundled_dictionary() -> None:
    assert dictionary().nearest_kind("butterfly", "moth") in ("lepidopteran", "lepidopteron", "lepidopterous_insect")
    assert dictionary().nearest_kind("trout", "salmon") == "salmonid"


def test_a_compound_is_what_its_end_says() -> None:
    book = dictionary()
    assert book.known("gala_apple") == "apple"
    assert book.known("golden_delicious") == "golden_delicious"
    assert book.known("zzyzx") is None
    assert book.has_only_end("milk_carton")
    assert not any(map(book.has_only_end, ("carton", "golden_delicious", "maple_tree", "zzyzx")))
    related = relations(book, ["gala_apple", "braeburn_apple", "zzyzx"]).total
    assert related[0, 1] == pytest.approx(KIND + DEFINITION)  # both are read as apple: equal kinds and definitions
    assert not related[2].any()


def test_a_compound_is_the_kind_of_thing_that_its_first_word_names() -> None:
    """A maple is a tree in one of its senses, a polo is no shirt."""
    book = dictionary()
    trees = {node for node, _ in book.senses_of("tree")}
    assert "maple_tree" not in book
    assert book.senses_of("maple_tree") == [
        (node, 0) for node, _ in book.senses_of("maple") if trees & book.ancestors(node)
    ]
    assert book.senses_of("gala_apple") == book.senses_of("apple")


def test_the_other_classes_decide_on_a_sense() -> None:
    """Beside birds a crane is a bird; beside machines it is not, and less close to a heron."""
    birds = relations(dictionary(), ["crane", "heron", "stork", "egret", "flamingo", "ibis"])
    machines = relations(dictionary(), ["crane", "heron", "forklift", "winch", "hoist", "lathe"])
    assert birds.weight[0, 1] == 1
    assert machines.weight[0, 1] < 1
    assert birds.total[0, 1] > machines.total[0, 1]


def test_what_is_alive() -> None:
    book = dictionary()
    assert all(book.is_living(noun) for noun in ("gull", "heermann_gull", "oak_tree", "crab", "snail", "toadstool"))
    assert not any(book.is_living(noun) for noun in ("carton", "egg_carton", "face", "qqq", ""))
