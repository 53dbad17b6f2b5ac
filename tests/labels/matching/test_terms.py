from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semco.labels.matching.terms import normalise


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
