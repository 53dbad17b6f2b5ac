"""The routes of the look-up, on a small vocabulary with known answers."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from semco.config.layers import parse_setting
from semco.errors import UserError
from semco.labels.matching.lookup import Lookup, Match
from semco.labels.matching.notes import alias_setting
from semco.labels.matching.routes import ROUTES
from semco.labels.matching.spelling import alternatives, normalise, spell, spellings
from semco.labels.store import VectorStore

TERMS = (
    # in order of frequency: the position of a term is its rank
    "fish aquarium pepper sweet paint can hen great wall china great_wall jack_o'_lantern t_shirt top shirt",
    "roller_skate skate dog cat car cart bear black_bear golden_retriever retriever bird mouse leaf oak tree woman",
    "tench goldfish sealion café annual_crop crane laysan_albatross elephant elephants boeing_737 carpenter_kit class",
    "road flight machine photo kater hen_of_woods sun",
)


def write_store(folder: Path, terms: str) -> VectorStore:
    words = terms.split()
    matrix = np.random.default_rng(0).normal(size=(len(words), 16))
    VectorStore.write(folder, words, matrix, range(len(words)), {"default_eps": 0.2})
    return VectorStore.open(folder)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> VectorStore:
    return write_store(tmp_path_factory.mktemp("store") / "s", " ".join(TERMS))


def found(store: VectorStore, name: str) -> tuple[str, str]:
    match = Lookup(store).find(name)
    assert match is not None, name
    return match.term, match.route


@pytest.mark.parametrize(
    ("name", "term", "route"),
    [
        ("dog", "dog", "exact"),
        ("  Dog ", "dog", "exact"),
        ("golden retriever", "golden_retriever", "exact"),
        ("Golden-Retriever", "golden_retriever", "exact"),
        ("jack-o'-lantern", "jack_o'_lantern", "exact"),
        ("Jack-o’-lantern", "jack_o'_lantern", "exact"),
        ("hen of the woods", "hen_of_woods", "exact"),
        ("AnnualCrop", "annual_crop", "exact"),
        ("001.Laysan_Albatross", "laysan_albatross", "exact"),
        ("n02085620-dog", "dog", "exact"),
        ("carpenter's kit", "carpenter_kit", "exact"),
        ("Ｄｏｇ", "dog", "exact"),
        ("🐶 dog", "dog", "exact"),
        ("the dog", "dog", "without article"),
        ("A golden retriever", "golden_retriever", "without article"),
        ("american black bear", "black_bear", "last two words"),
        ("mice", "mouse", "lemma"),
        ("women", "woman", "lemma"),
        ("American black bears", "black_bear", "lemma"),
        ("rollerskates", "roller_skate", "joined"),
        ("sea lion", "sealion", "joined"),
        ("sea-lions", "sealion", "joined"),
        ("tshirt", "t_shirt", "joined"),
        ("great wall of china", "great_wall", "before of"),
        ("Hens of the farm", "hen", "before of"),
        ("aquarium_fish", "fish", "head noun"),
        ("sweet_pepper", "pepper", "head noun"),
        ("paint can", "paint+can", "all words"),
        ("bird in flight", "bird", "head noun"),
        ("red rollerskates", "roller_skate", "head noun"),
        ("roadmachine", "machine", "head noun"),
        ("roadmachines", "machine", "head noun"),
        ("elehpant", "elephant", "edit distance 1"),
        ("retreiver", "retriever", "edit distance 1"),
        ("golden retreiver", "golden_retriever", "edit distance 1"),
        ("golden retreivers", "golden_retriever", "edit distance 1"),
        ("tree blorp", "tree", "mean of words"),
        ("oak tree blorp", "oak+tree", "mean of words"),
    ],
)
def test_route(store: VectorStore, name: str, term: str, route: str) -> None:
    assert found(store, name) == (term, route)


def test_accents_may_be_left_out_or_added(store: VectorStore, tmp_path: Path) -> None:
    assert found(store, "café") == ("café", "exact")
    assert found(write_store(tmp_path / "plain", "cafe dog"), "Café") == ("cafe", "exact")


def test_an_apostrophe_may_be_missing_from_the_vocabulary(tmp_path: Path) -> None:
    assert found(write_store(tmp_path / "s", "jack_o_lantern dog"), "jack-o'-lantern")[0] == "jack_o_lantern"


@pytest.mark.parametrize(
    ("name", "term", "how"),
    [
        ("T-shirt/top", "t_shirt", "exact, of 'T-shirt'"),
        ("crane (bird)", "crane", "exact, of 'crane'"),
        ("tench, Tinca tinca", "tench", "exact, of 'tench'"),
        ("Carassius auratus, goldfish", "goldfish", "exact, of 'goldfish'"),
        ("mice / blorps", "mouse", "lemma, of 'mice'"),
    ],
)
def test_alternatives_of_a_name(store: VectorStore, name: str, term: str, how: str) -> None:
    match = Lookup(store).find(name)
    assert match is not None
    assert (match.term, match.how) == (term, how)


def test_the_first_alternative_is_preferred_over_an_exact_second_one(tmp_path: Path) -> None:
    """ "tshirt" means the first alternative; "top" would be exact, but of the second."""
    assert found(write_store(tmp_path / "s", "tshirt top"), "T-shirt/top") == ("tshirt", "joined")


def test_every_route_of_the_table_is_tested() -> None:
    tested = {mark[2] for mark in test_route.pytestmark[0].args[1]}  # type: ignore[attr-defined]
    assert tested | {"alias"} == set(ROUTES)


@pytest.mark.parametrize(
    "name", ["dgo", "carr", "kar", "Hund", "xq", "of the", "of", "🐶", "!!!", "---", "boeing 747", "class 7"]
)
def test_names_without_a_match(store: VectorStore, name: str) -> None:
    """Short words and numbers are not corrected, and stop words have no term."""
    assert Lookup(store).find(name) is None


def test_an_edit_in_a_short_word_of_a_phrase_is_refused(tmp_path: Path) -> None:
    store = write_store(tmp_path / "s", "red_cat zebra")
    assert Lookup(store).find("red car") is None


def test_a_word_is_not_corrected_into_a_short_one(tmp_path: Path) -> None:
    assert Lookup(write_store(tmp_path / "s", "kate dog")).find("Katze") is None


@pytest.mark.parametrize("name", ["no dog", "not dog", "without dog", "non-dog"])
def test_what_a_name_denies_is_not_its_term(store: VectorStore, name: str) -> None:
    assert Lookup(store).find(name) is None


def test_a_correction_keeps_the_first_letter_and_english_words(tmp_path: Path) -> None:
    assert Lookup(write_store(tmp_path / "a", "cutlet")).find("outlet") is None  # an English word
    assert Lookup(write_store(tmp_path / "b", "bovid")).find("covid") is None  # another first letter


def test_a_spelling_correction_gets_a_note(store: VectorStore) -> None:
    _, notes = Lookup(store).find_all(["dog", "elehpant"])
    assert notes == [
        "class 'elehpant' was read as 'elephant'; if that is wrong, choose a term with the setting "
        "'labels.aliases={elehpant: TERM}'."
    ]


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.one_of(st.text(max_size=40), st.lists(st.sampled_from(" ".join(TERMS).split()), max_size=6).map(" ".join)))
def test_any_text_has_known_terms_or_none(store: VectorStore, name: str) -> None:
    match = Lookup(store).find(name)
    if match is None:
        with pytest.raises(UserError) as caught:
            Lookup(store, is_strict=True).find_all([name])
        assert len(str(caught.value)) < 500
    else:
        assert all(term in store for term in match.terms)
        assert match.route in ROUTES
        assert Lookup(store).find_all([name])[0] == [match]


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.binary(min_size=1, max_size=40))
def test_every_file_name_can_be_looked_up(store: VectorStore, name: bytes) -> None:
    match = Lookup(store).find(os.fsdecode(name))
    assert match is None or all(term in store for term in match.terms)


def test_a_file_name_in_latin_1_is_looked_up_as_text(tmp_path: Path) -> None:
    lookup = Lookup(write_store(tmp_path / "s", "café dog"))
    (match, _), _ = lookup.find_all([os.fsdecode(b"caf\xe9"), "dog"])
    assert (match.name, match.terms, match.route) == ("caf\udce9", ("café",), "exact")


def test_corrections_prefer_the_frequent_term(tmp_path: Path) -> None:
    """Both are one edit away from "hoorse"; the rank decides, not the alphabet."""
    assert found(write_store(tmp_path / "a", "horse hoarse"), "hoorse")[0] == "horse"
    assert found(write_store(tmp_path / "b", "hoarse horse"), "hoorse")[0] == "hoarse"


def test_an_alias_takes_precedence(store: VectorStore) -> None:
    lookup = Lookup(store, {"dog": "cat", "Roter Milan": "the bird"})
    assert lookup.find("dog") == Match("dog", ("cat",), "alias", "dog")
    assert lookup.find("roter_milan") == Match("roter_milan", ("bird",), "alias", "roter_milan")
    assert lookup.unused_aliases(["dog"]) == ["Roter Milan"]


def test_an_alias_to_an_unknown_term_is_an_error(store: VectorStore) -> None:
    with pytest.raises(UserError, match=r"the alias dog=elephnat: 'elephnat' is not .*similar terms: elephant"):
        Lookup(store, {"dog": "elephnat"}).find("dog")


def test_the_error_for_unknown_names_lists_similar_terms_and_the_remedy(store: VectorStore) -> None:
    with pytest.raises(UserError) as caught:
        Lookup(store, is_strict=True).find_all(["dog", "Elefant", "Schmetterling"])
    text = str(caught.value)
    assert "'Elefant' is not in the vocabulary (similar terms: elephant" in text
    assert "'Schmetterling' is not in the vocabulary (no term has a similar spelling)" in text
    assert "'labels.aliases={Elefant: TERM}'" in text
    assert "'dog'" not in text


def test_an_unknown_name_has_no_term_and_is_named_in_a_note(store: VectorStore) -> None:
    matches, notes = Lookup(store).find_all(["dog", "SKU-1042", "qqq", "cat"])
    assert [(match.terms, match.route) for match in matches] == [
        (("dog",), "exact"),
        ((), "own vector"),
        ((), "own vector"),
        (("cat",), "exact"),
    ]
    assert len(notes) == 1
    assert notes[0].startswith("not in the vocabulary, each with a vector of its own and no group: 'SKU-1042', 'qqq';")
    assert "'labels.aliases={SKU-1042: TERM}'" in notes[0]


def test_names_of_which_none_is_known(store: VectorStore) -> None:
    matches, notes = Lookup(store).find_all(["qqq1", "qqq2"])
    assert [match.terms for match in matches] == [(), ()]
    assert notes == [
        "no class name is in the vocabulary: the semantic head learns one vector per class, without groups."
    ]


def test_many_unknown_names_make_a_short_error(store: VectorStore) -> None:
    with pytest.raises(UserError, match="and 95 more") as caught:
        Lookup(store, is_strict=True).find_all([f"zzz{'q' * i}" for i in range(1, 101)])
    assert len(str(caught.value)) < 2000


@pytest.mark.parametrize("names", [[""], ["dog", "  "], []])
def test_empty_names(store: VectorStore, names: list[str]) -> None:
    with pytest.raises(UserError, match=r"is empty|no class names"):
        Lookup(store).find_all(names)


def test_a_name_given_twice(store: VectorStore) -> None:
    with pytest.raises(UserError, match="'dog' is given twice"):
        Lookup(store).find_all(["dog", "cat", "dog"])


def test_a_name_of_a_thousand_letters(store: VectorStore) -> None:
    with pytest.raises(UserError, match="x…' is not in the vocabulary") as caught:
        Lookup(store, is_strict=True).find_all(["x" * 1000])
    assert len(str(caught.value)) < 400
    assert found(store, "blorp " * 200 + "dog") == ("dog", "head noun")


def test_classes_with_the_same_term_are_separated_by_their_other_words(store: VectorStore) -> None:
    matches, notes = Lookup(store).find_all(["oak tree", "sun tree", "tree", "rotten tree"])
    assert [(match.term, match.route) for match in matches] == [
        ("oak+tree", "mean of words"),
        ("sun+tree", "mean of words"),
        ("tree", "exact"),
        ("tree", "head noun"),
    ]
    assert [match.is_shared for match in matches] == [False, False, False, True]
    assert len(notes) == 1
    assert "class 'rotten tree' has the same term 'tree' as 'tree'" in notes[0]


def test_alternatives_with_the_same_term_are_separated(store: VectorStore) -> None:
    matches, notes = Lookup(store).find_all(["crane (bird)", "crane (machine)"])
    assert [match.term for match in matches] == ["crane+bird", "crane+machine"]
    assert notes == []


def test_classes_with_the_same_meaning_are_marked_as_shared(store: VectorStore) -> None:
    matches, notes = Lookup(store).find_all(["dog", "dogs", "cat"])
    assert [match.is_shared for match in matches] == [False, True, False]
    assert matches[1].how == "lemma, shared"
    assert "'labels.aliases={dogs: TERM}'" in notes[0]


def test_the_order_of_names_does_not_change_the_matches(store: VectorStore) -> None:
    names = ["dog", "dogs", "the dog", "oak tree", "sun tree", "tree"]
    forward, _ = Lookup(store).find_all(names)
    backward, _ = Lookup(store).find_all(names[::-1])
    assert forward == backward[::-1]


def test_half_of_an_unknown_name_is_not_corrected(store: VectorStore) -> None:
    """``entle`` is unknown, so ``retriver`` is not corrected to ``retriever`` either."""
    assert Lookup(store).find("EntleRetriver") is None
    assert Lookup(store).find("entle retriver") is None


def test_keys_of_names() -> None:
    assert spell("The  Hen-of the_Woods!") == "the_hen_of_woods"
    assert spell("Vitamin A") == "vitamin_a"
    assert spell("") == spell("🐶") == ""
    assert spellings("T-shirt/top") == ("t_shirt_top", "t_shirt/top")
    assert alternatives("T-shirt/top") == ("T-shirt", "top")
    assert alternatives("plain name") == ("plain name",)
    assert alternatives("///") == ("///",)


@pytest.mark.parametrize(
    ("text", "term"),
    [
        ("apple", "apple"),
        ("Aquarium Fish", "aquarium_fish"),
        ("aquarium_fish", "aquarium_fish"),
        ("T-shirt", "t_shirt"),
        ("  pickup -- truck\t", "pickup_truck"),
        ("jack-o’-lantern", "jack_o'_lantern"),
        ("jack-o'-lantern", "jack_o'_lantern"),
        ("the hen of the woods", "hen_of_woods"),
        ("A", "a"),
        ("The", "the"),
        ("vitamin A", "vitamin_a"),
        ("ﬁsh", "fish"),
        ("Ｃａｔ", "cat"),
        ("CRÈME BRÛLÉE", "crème_brûlée"),
        ("cre\u0300me", "crème"),
        ("cat\u200bfish\ufeff", "catfish"),
        ("non\u00a0breaking", "non_breaking"),
        ("", ""),
        (" _-- ", ""),
        ("🐈", "🐈"),
        ("Caf\udce9 au Lait", "café_au_lait"),
        ("\ud800x", "\ufffdx"),
    ],
)
def test_one_spelling(text: str, term: str) -> None:
    assert normalise(text) == term


@given(st.text())
def test_normal_form_holds_no_gap_and_loses_nothing_when_normalised_again(text: str) -> None:
    term = normalise(text)
    assert not any(c.isspace() for c in term)
    assert "__" not in term
    assert not term.startswith("_")
    assert not term.endswith("_")


def test_names_that_another_source_places_are_not_said_to_have_vectors_of_their_own(store: VectorStore) -> None:
    matches, notes = Lookup(store).find_all(["dog", "qqq", "Hund"], lambda names: {"Hund"} & set(names))
    assert [match.route for match in matches] == ["exact", "own vector", "sentence encoder"]
    placed, own = notes
    assert placed == (
        "not in the vocabulary, but placed near what they mean by the sentence encoder: 'Hund'; if a place is wrong, "
        "choose a term with the setting 'labels.aliases={Hund: TERM}'."
    )
    assert "Hund" not in own
    assert own.startswith("not in the vocabulary, each with a vector of its own and no group: 'qqq';")
    _, notes = Lookup(store).find_all(["Hund"], lambda names: names)
    assert len(notes) == 1
    assert "placed near" in notes[0]


@pytest.mark.parametrize(
    "name",
    ["Cardinal", "Blauhäher groß", "Anna's hummingbird", "yes", "1", "a: b", "{x}", "#tag", 'a "b"', "a, b", "$HOME"],
)
def test_the_setting_of_an_alias_can_be_pasted_into_a_shell(name: str) -> None:
    (pasted,) = shlex.split(alias_setting(name))
    assert parse_setting(pasted) == {"labels": {"aliases": {name: "TERM"}}}


def test_the_setting_of_an_alias_as_the_tutorial_writes_it() -> None:
    assert alias_setting("Cardinal") == "'labels.aliases={Cardinal: TERM}'"
    assert alias_setting("yes") == """'labels.aliases={"yes": TERM}'"""
    assert alias_setting(os.fsdecode(b"caf\xe9")).startswith("'labels.aliases={")  # not UTF-8
