"""ONNX files of strangers are tried in a process of their own, and checked against what they say of themselves."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import semco
from semco.errors import UserError
from semco.predict.onnx.engine import read_metadata

pytest.importorskip("onnxruntime")
pytest.importorskip("onnx")

from torture import stranger_models
from torture.stranger_models import write_model

PHOTOS = np.zeros((3, 8, 8, 3), np.uint8)


def test_a_small_graph_predicts(tmp_path: Path) -> None:
    predictor = semco.load(write_model(tmp_path / "model.onnx"))
    np.testing.assert_allclose(predictor.predict_proba(PHOTOS), np.full((3, 3), 1 / 3), rtol=1e-6)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"group_ids": [0]}, "1 groups for 3 classes"),
        ({"group_ids": [0, 0, 10**9]}, "groups are numbers from 0 to 2"),
        ({"class_names": [], "group_ids": []}, "was not written by 'semco export'"),
        ({"channels": 7}, "was not written by 'semco export'"),
        ({"image_size": [10**5, 10**5]}, "was not written by 'semco export'"),
        ({"classes": 4}, "does not predict the 3 classes that it names"),
        ({"head": "semantic"}, "does not predict the 3 classes that it names"),
        ({"thresholds": [{"share": 0.05, "least": 0.5}]}, "a familiarity that it does not predict"),
        ({"thresholds": [{"share": 0.05, "least": 1e9}]}, "was not written by 'semco export'"),
        ({"thresholds": [{"share": 2, "least": 0.5}]}, "was not written by 'semco export'"),
        ({"thresholds": [{"share": 0.1, "least": 0.5, "more": 1}]}, "was not written by 'semco export'"),
        ({"thresholds": [{"share": 0.1, "least": 0.5}] * 21}, "was not written by 'semco export'"),
        ({"class_names": ["shirt", "bag", "bag"]}, "is damaged: 2 classes are named 'bag'"),
        ({"class_names": ["shirt", " ", "bag"]}, "is damaged: a class is named ' '"),
        ({"class_names": ["shirt", "", "bag"]}, "is damaged: a class is named ''"),
        ({"class_names": ["shirt", "co\0at", "bag"]}, r"is damaged: a class is named 'co\\x00at'"),
        ({"heads": []}, "does not predict the 3 classes that it names"),
    ],
)
def test_what_a_model_says_of_itself_is_checked(tmp_path: Path, options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        semco.load(write_model(tmp_path / "model.onnx", **options))


@pytest.mark.parametrize("text", ["[]", "null", "1e999", "[" * 100_000])
def test_metadata_may_be_any_json(text: str) -> None:
    session = SimpleNamespace(get_modelmeta=lambda: SimpleNamespace(custom_metadata_map={"semco": text}))
    with pytest.raises(UserError, match="was not written by 'semco export'"):
        read_metadata(session, Path("model.onnx"))


@pytest.mark.parametrize(
    ("graph", "sentence"),
    [
        ("endless_loop", r"two small photos take it more than 1 s"),
        ("much_memory", r"is not a model that ONNX Runtime reads"),
        ("other_rank", r"does not predict the 3 classes that it names"),
    ],
)
def test_a_graph_that_cannot_be_used_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, graph: str, sentence: str
) -> None:
    nodes, constants = getattr(stranger_models, graph)()
    if graph == "endless_loop":  # the others need seconds to start on a busy machine
        monkeypatch.setattr("semco.predict.onnx.trial.SECONDS", 1.0)
    with pytest.raises(UserError, match=sentence):
        semco.load(write_model(tmp_path / "model.onnx", nodes=nodes, constants=constants))


@pytest.mark.parametrize("more", [-5.0, [0.5, -0.5, 0.0], 0.1, [0.0, 0.0, 1.0], 1e30, np.nan])
def test_outputs_that_are_no_probabilities_are_refused(tmp_path: Path, more: Any) -> None:
    added = stranger_models.constant("added", np.asarray(more, np.float32))
    node = stranger_models.helper.make_node("Identity", ["added"], ["more"])
    with pytest.raises(UserError, match=r"not probabilities|not finite"):
        semco.load(write_model(tmp_path / "model.onnx", nodes=(node,), constants=(added,)))


def test_probabilities_that_are_rounded_are_accepted(tmp_path: Path) -> None:
    added = stranger_models.constant("added", np.asarray([2 / 3, -0.334, -0.333], np.float32))
    node = stranger_models.helper.make_node("Identity", ["added"], ["more"])
    predictor = semco.load(write_model(tmp_path / "model.onnx", nodes=(node,), constants=(added,)))
    assert predictor.predict_proba(PHOTOS)[:, 0].tolist() == [1.0] * 3


def test_a_graph_that_fails_later_is_one_sentence(tmp_path: Path) -> None:
    """It adds two rows to the probabilities, so that it works with two photos only."""
    rows = stranger_models.constant("rows", np.zeros((2, 1), np.float32))
    node = stranger_models.helper.make_node("Identity", ["rows"], ["more"])
    predictor = semco.load(write_model(tmp_path / "model.onnx", nodes=(node,), constants=(rows,)))
    assert predictor.predict_proba(PHOTOS[:2]).shape == (2, 3)
    with pytest.raises(UserError, match="cannot predict 3 photos"):
        predictor.predict_proba(PHOTOS)
    with pytest.raises(UserError, match="does not predict 3 classes for each of 1 photos"):
        predictor.predict_proba(PHOTOS[:1])
