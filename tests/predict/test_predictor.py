"""`semco.load`: a model from Python, for files and arrays."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import semco
from semco.errors import UserError
from semco.predict.engine import TorchEngine
from semco.predict.predictions import as_row, columns
from semco.predict.predictor import Predictor, map_ahead
from tests.evaluation.brightness import NAMES, brightness_model, save_untrained


@pytest.fixture
def bright() -> Predictor:
    return Predictor(TorchEngine(brightness_model()))


def test_dir_shows_what_there_is() -> None:
    assert dir(semco) == sorted(semco.__all__)
    assert {"load", "train", "resume", "SemCoClassifier", "Config"} <= set(dir(semco))
    for name in dir(semco):
        assert getattr(semco, name) is not None


def test_arrays_and_files_of_the_same_pixels_get_the_same_answer(bright: Predictor, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    images = [rng.integers(0, 256, shape).astype(np.uint8) for shape in ((8, 8, 3), (30, 20, 3), (9, 16), (5, 5, 1))]
    for number, image in enumerate(images):
        Image.fromarray(image[..., 0] if image.shape[-1] == 1 else image).save(tmp_path / f"{number}.png")
    files = [tmp_path / f"{number}.png" for number in range(4)]
    np.testing.assert_array_equal(bright.predict_proba(images), bright.predict_proba(files))
    assert [each.confidence for each in bright.predict(images)] == [each.confidence for each in bright.predict(files)]


def test_answers(bright: Predictor) -> None:
    white = np.full((1, 8, 8), 255, np.uint8)
    (answer,) = bright.predict(white, top=3)
    # White is 2 after normalisation: distances 4, 2, 0, logits -8, -4, 0.
    weights = np.exp([-8.0, -4.0, 0.0])
    chances = weights / weights.sum()
    assert [name for name, _ in answer.top] == ["bright", "middle", "dark"]
    np.testing.assert_allclose([chance for _, chance in answer.top], chances[::-1], rtol=1e-5)
    assert (answer.label, answer.runner_up, answer.group) == ("bright", "middle", "middle + bright")
    assert answer.heads["one_hot"] == (answer.label, answer.confidence)
    assert answer.heads["semantic"][0] == "dark"
    np.testing.assert_allclose(bright.predict_proba(white), [chances], rtol=1e-5)
    row = as_row(answer, bright.about, top=3)
    assert tuple(row) == columns(bright.about, top=3)
    assert (row["top_3"], row["semantic"], row["error"]) == ("dark", "dark", None)


def test_unreadable_files_keep_their_place(bright: Predictor, tmp_path: Path) -> None:
    Image.new("RGB", (9, 9), "white").save(tmp_path / "white.png")
    (tmp_path / "broken.png").write_bytes(b"nothing")
    files = [tmp_path / name for name in ("broken.png", "white.png", "broken.png", "gone.png")]
    answers = bright.predict(files)
    assert [answer.label for answer in answers] == [None, "bright", None, None]
    assert answers[0].error == "it is not an image in a known format"
    assert answers[3].error is not None
    assert all(answer.error and answer.label is None for answer in bright.predict(files[:1]))
    with pytest.raises(UserError, match=r"broken\.png cannot be read"):
        bright.predict_proba(files)


@pytest.mark.parametrize(
    "images", [3, np.zeros((2, 8, 8)), np.zeros((8, 8), np.uint8), [np.zeros((2, 2, 4), np.uint8)]]
)
def test_what_is_not_an_image_is_refused(bright: Predictor, images: object) -> None:
    with pytest.raises(UserError, match="image"):
        bright.predict(images)


def test_load_reads_a_run_or_a_model_folder(tmp_path: Path) -> None:
    save_untrained(tmp_path / "run" / "model")
    images = np.random.default_rng(0).integers(0, 256, (3, 8, 8, 3)).astype(np.uint8)
    one, other = semco.load(tmp_path / "run"), semco.load(str(tmp_path / "run" / "model"), head="semantic")
    assert one.class_names == NAMES
    assert one.groups == ("dark", "middle + bright", "middle + bright")
    chosen = other.predict_proba(images)
    assert np.abs(chosen - one.predict_proba(images)).max() > 1e-4
    np.testing.assert_allclose(chosen.sum(axis=1), 1.0, rtol=1e-5)


def test_work_ahead_is_bounded_and_in_order() -> None:
    started: list[int] = []
    results = map_ahead(lambda item: started.append(item) or -item, iter(range(10**9)), ahead=5, threads=2)
    assert [next(results) for _ in range(3)] == [(0, 0), (1, -1), (2, -2)]
    assert max(started) <= 3 + 5
    results.close()


@pytest.mark.parametrize(("side", "engine"), [(96, "openvino"), (8, "torch")])
def test_another_engine_than_torch_is_loaded_where_it_pays(side: int, engine: str, tmp_path: Path) -> None:
    save_untrained(tmp_path, size=(side, side))
    found, plain = semco.load(tmp_path), semco.load(tmp_path, engine="torch")
    assert (found.engine.name, plain.engine.name) == (engine, "torch")
    images = np.random.default_rng(0).integers(0, 256, (5, side, side, 3)).astype(np.uint8)
    np.testing.assert_allclose(found.predict_proba(images), plain.predict_proba(images), atol=1e-5)
