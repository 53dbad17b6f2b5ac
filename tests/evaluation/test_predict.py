"""Predicting image files: decoding, finding files in folders, skipping unreadable files, and the CSV."""

from __future__ import annotations

import csv
import os
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor, nn

from semco.config import ModelConfig
from semco.errors import UserError
from semco.evaluation.model_file import ModelDescription, SavedModel, empty_network, save_model
from semco.evaluation.predict import Prediction, Predictions, find_image_files, predict_images, write_predictions
from semco.types import Outputs

NAMES = ("dark", "middle", "bright")


def _description(channels: int = 3, size: tuple[int, int] = (8, 8)) -> ModelDescription:
    return ModelDescription(
        class_names=NAMES,
        image_size=size,
        channels=channels,  # type: ignore[arg-type]
        mean=(0.5,) * channels,
        std=(0.25,) * channels,
        model=ModelConfig(backbone="wrn-10-1"),
        heads=("one_hot", "semantic"),
        embedding_dim=3,
        scale=4.0,
        groups=(0, 1, 2),
        eps=0.0,
    )


class Brightness(nn.Module):
    """Predicts from the mean of the normalised image, -2 to 2."""

    def forward(self, images: Tensor) -> Outputs:
        mean = images.mean(dim=(1, 2, 3))[:, None]
        logits = -2 * (mean - torch.tensor([[-2.0, 0.0, 2.0]])).abs()
        return Outputs(mean, logits, -logits)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    description = _description()
    save_model(tmp_path / "run" / "model", SavedModel(description, empty_network(description), torch.eye(3)))
    return tmp_path / "run"


@pytest.fixture
def _brightness(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace the model by one with known predictions."""
    model = SavedModel(_description(), Brightness(), torch.eye(3))  # type: ignore[arg-type]
    monkeypatch.setattr("semco.evaluation.predict.load_model", lambda *_: model)
    monkeypatch.setattr("semco.evaluation.predict.find_model_folder", lambda folder: folder / "model")


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    folder = tmp_path / "photos"
    (folder / "more").mkdir(parents=True)
    Image.new("RGB", (20, 12), (255, 255, 255)).save(folder / "white.png")
    Image.new("L", (12, 20), 128).save(folder / "more" / "grey.JPG")
    (folder / "more" / "notes.txt").write_text("not an image")
    return folder


@pytest.mark.usefixtures("_brightness")
def test_predictions_with_runner_up(photos: Path, tmp_path: Path) -> None:
    seen: list[tuple[str, int, int]] = []
    found = predict_images(tmp_path, [photos], report=lambda *progress: seen.append(progress))
    grey, white = found.rows
    assert (Path(white.path).name, white.label, white.runner_up) == ("white.png", "bright", "middle")
    # White is 2 after normalisation: distances 4, 2, 0, logits -8, -4, 0.
    weights = np.exp([-8.0, -4.0, 0.0])
    assert white.confidence == pytest.approx(weights[2] / weights.sum(), rel=1e-5)
    assert white.runner_up_confidence == pytest.approx(weights[1] / weights.sum(), rel=1e-5)
    assert (Path(grey.path).name, grey.label) == ("grey.JPG", "middle")
    assert seen == [("predicting", 2, 2)]


@pytest.mark.usefixtures("_brightness")
def test_the_chosen_head_predicts(photos: Path, tmp_path: Path) -> None:
    (row,) = predict_images(tmp_path, [photos / "white.png"], head="semantic").rows
    assert row.label == "dark"  # the embedding of this model points away from its logits


@pytest.mark.usefixtures("_brightness")
def test_unreadable_images_are_skipped_and_named(photos: Path, tmp_path: Path) -> None:
    whole = (photos / "white.png").read_bytes()
    (photos / "cut.png").write_bytes(whole[: len(whole) // 2])
    found = predict_images(tmp_path, [photos])
    assert len(found.rows) == 2
    (skipped,) = found.skipped
    assert "cut.png" in skipped


@pytest.mark.usefixtures("_brightness")
def test_the_reason_for_skipping_an_image_does_not_repeat_its_path(photos: Path, tmp_path: Path) -> None:
    os.mkfifo(photos / "pipe.png")
    (skipped,) = predict_images(tmp_path, [photos]).skipped
    assert skipped.startswith(f"{photos / 'pipe.png'} (is a named pipe")
    assert skipped.count("pipe.png") == 1


@pytest.mark.usefixtures("_brightness")
def test_an_error_if_no_image_can_be_read(photos: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"none of the 1 images can be read.*notes\.txt"):
        predict_images(tmp_path, [photos / "more" / "notes.txt"])


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("size", [(8, 8), (8, 12)])
def test_images_are_converted_to_the_shape_of_the_model(
    photos: Path, tmp_path: Path, channels: int, size: tuple[int, int]
) -> None:
    description = _description(channels, size)
    save_model(tmp_path / "m", SavedModel(description, empty_network(description), torch.eye(3)))
    found = predict_images(tmp_path / "m", [photos])
    assert len(found.rows) == 2
    for row in found.rows:
        assert row.confidence >= row.runner_up_confidence >= 0
        assert row.label != row.runner_up


def test_a_run_folder_or_its_model_folder(run: Path, photos: Path) -> None:
    assert predict_images(run, [photos]) == predict_images(run / "model", [photos])


def test_a_missing_run_is_named(photos: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no run folder .*gone"):
        predict_images(tmp_path / "gone", [photos])


def test_files_in_folders_are_found_in_order_and_once(photos: Path) -> None:
    files = find_image_files([photos / "white.png", photos])
    assert [file.name for file in files] == ["white.png", "grey.JPG"]


def test_a_missing_image_and_an_empty_folder_are_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no image or folder .*gone\.png"):
        find_image_files([tmp_path / "gone.png"])
    with pytest.raises(UserError, match="holds no image files"):
        find_image_files([tmp_path])
    with pytest.raises(UserError, match="no images to predict"):
        find_image_files([])


def test_csv_of_predictions(tmp_path: Path) -> None:
    odd = os.fsdecode(b"caf\xe9, 1.png")  # a name that is not valid UTF-8
    rows = (Prediction("a.png", 'say "hi", bag', 0.75, "coat", 0.25), Prediction(odd, "coat", 1.0, "bag", 0.0))
    file = tmp_path / "deep" / "predictions.csv"
    write_predictions(file, Predictions(rows, ()))
    with file.open(encoding="utf-8", errors="surrogateescape", newline="") as stream:
        header, *lines = csv.reader(stream)
    assert header == ["path", "label", "confidence", "runner_up", "runner_up_confidence"]
    assert lines == [["a.png", 'say "hi", bag', "0.75", "coat", "0.25"], [odd, "coat", "1.0", "bag", "0.0"]]
    assert [f.name for f in file.parent.iterdir()] == ["predictions.csv"]
