from __future__ import annotations

from semco.labels.matching.spelling import alternatives, spell, spellings


def test_keys_of_names() -> None:
    assert spell("The  Hen-of the_Woods!") == "the_hen_of_woods"
    assert spell("Vitamin A") == "vitamin_a"
    assert spell("") == spell("🐶") == ""
    assert spellings("T-shirt/top") == ("t_shirt_top", "t_shirt/top")
    assert alternatives("T-shirt/top") == ("T-shirt", "top")
    assert alternatives("plain name") == ("plain name",)
    assert alternatives("///") == ("///",)
