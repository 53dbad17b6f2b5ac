"""Evaluation of a run from its folder, and the commands evaluate and predict."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import typer
from PIL import Image
from sklearn.metrics import confusion_matrix
from typer.testing import CliRunner

from semco.cli.evaluate import evaluate
from semco.cli.predict import predict
from semco.config import Config, ModelConfig
from semco.errors import UserError
from semco.evaluation.model_file import ModelDescription, SavedModel, empty_network, save_model
from semco.evaluation.probabilities import HEADS
from semco.evaluation.run import evaluate_run
from semco.predict.other_data import evaluate_on
from semco.run.folder import RunFolder

NAMES = ("shirt", "coat", "bag")


def _data(folder: Path, **changes: Any) -> Path:
    generator = np.random.default_rng(0)
    values: dict[str, Any] = {
        "x_train": generator.integers(0, 256, (12, 8, 8), dtype=np.uint8),
        "y_train": np.arange(12) % 3,
        "x_test": generator.integers(0, 256, (7, 8, 8), dtype=np.uint8),
        "y_test": np.arange(7) % 3,
        "class_names": np.array(NAMES),
    } | changes
    file = folder / "data.npz"
    np.savez(file, **{k: v for k, v in values.items() if v is not None})
    return file


def _model() -> SavedModel:
    description = ModelDescription(
        class_names=NAMES,
        image_size=(8, 8),
        channels=1,
        mean=(0.4,),
        std=(0.3,),
        model=ModelConfig(backbone="wrn-10-1"),
        heads=("one_hot", "semantic"),
        embedding_dim=3,
        scale=5.0,
        groups=(0, 0, 1),
        eps=0.2,
        head="semantic",
    )
    torch.manual_seed(0)
    return SavedModel(description, empty_network(description).eval(), torch.eye(3))


@pytest.fixture
def run(tmp_path: Path) -> Path:
    config = Config.parse({"data": {"source": str(_data(tmp_path))}, "evaluation": {"batch_size": 4}})
    folder = RunFolder.create(tmp_path / "run", config, config)
    save_model(folder.model, _model())
    return folder.path


def _arrays(file: Path) -> dict[str, np.ndarray[Any, Any]]:
    with np.load(file) as arrays:  # an open file is a warning in whichever test runs when it is collected
        return dict(arrays)


def _slow_predictions(head: str, data: Path) -> list[int]:
    """Return predictions from the definition, one image at a time."""
    model = _model()
    values = _arrays(data)
    found = []
    for image in values["x_test"]:
        with torch.no_grad():
            out = model.network(((torch.tensor(image) / 255 - 0.4) / 0.3)[None, None])
        assert out.embedding is not None
        q = out.embedding[0] / out.embedding[0].norm()
        one_hot, semantic = out.logits[0].softmax(0), (5.0 * model.label_vectors @ q).softmax(0)
        found.append(int({"one_hot": one_hot, "semantic": semantic, "average": one_hot + semantic}[head].argmax()))
    return found


@pytest.mark.parametrize("head", HEADS)
def test_each_head_equals_a_slow_loop(run: Path, head: str) -> None:
    evaluation = evaluate_run(run, head, device="cpu")  # type: ignore[arg-type]
    predicted, truth = np.array(_slow_predictions(head, run.parent / "data.npz")), np.arange(7) % 3
    assert evaluation.head == head
    assert evaluation.num_images == 7
    assert evaluation.accuracy == pytest.approx(np.mean(predicted == truth))
    groups = np.array([0, 0, 1])
    assert evaluation.group_accuracy == pytest.approx(np.mean(groups[predicted] == groups[truth]))


def test_the_head_of_the_run_predicts_by_default(run: Path) -> None:
    assert evaluate_run(run, device="cpu").head == "semantic"


def test_data_with_other_classes_are_refused(run: Path) -> None:
    _data(run.parent, class_names=np.array(["shirt", "coat", "hat"]))
    with pytest.raises(UserError, match="they differ in bag, hat"):
        evaluate_run(run)
    _data(run.parent, class_names=np.array(["coat", "shirt", "bag"]))
    with pytest.raises(UserError, match="they are in another order"):
        evaluate_run(run)


def test_data_with_other_image_sizes_are_refused(run: Path) -> None:
    shape = (12, 10, 10)
    _data(run.parent, x_train=np.zeros(shape, np.uint8), x_test=np.zeros((7, 10, 10), np.uint8))
    with pytest.raises(UserError, match=r"\(10, 10\) pixels .* trained on \(8, 8\)"):
        evaluate_run(run)


def test_data_without_test_images_are_refused(run: Path) -> None:
    _data(run.parent, x_test=None, y_test=None)
    with pytest.raises(UserError, match="no test images"):
        evaluate_run(run)


@pytest.fixture
def app() -> typer.Typer:
    app = typer.Typer()
    app.command()(evaluate)
    app.command()(predict)
    return app


def test_evaluate_prints_tables_or_json(run: Path, app: typer.Typer) -> None:
    result = CliRunner().invoke(app, ["evaluate", str(run)])
    assert result.exit_code == 0
    assert "shirt + coat" in result.stdout
    result = CliRunner().invoke(app, ["evaluate", str(run), "--head", "one_hot", "--json"])
    values = json.loads(result.stdout.splitlines()[-1])
    assert values["head"] == "one_hot"
    assert values["test_accuracy"] == evaluate_run(run, "one_hot").accuracy


def test_predict_writes_a_table(run: Path, app: typer.Typer, tmp_path: Path) -> None:
    Image.new("L", (9, 9), 70).save(tmp_path / "one.png")
    (tmp_path / "broken.png").write_bytes(b"\x89PNG")
    out = tmp_path / "predictions.csv"
    result = CliRunner().invoke(app, ["predict", str(run), str(tmp_path), "--out", str(out)])
    assert result.exit_code == 3  # some were skipped
    assert "broken.png" in result.stderr
    assert "1 image classified, 1 skipped" in result.stderr
    _, broken, one = out.read_text().splitlines()
    assert broken.split(",")[:2] == [str(tmp_path / "broken.png"), ""]
    assert one.split(",")[1] in NAMES
    again = CliRunner().invoke(app, ["predict", str(run), str(tmp_path), "--out", str(out)])
    assert "exists; choose another name, or force it to be overwritten (--force)." in str(again.exception)
    (tmp_path / "broken.png").unlink()
    whole = CliRunner().invoke(app, ["predict", str(run), str(tmp_path), "--out", str(out), "--force"])
    assert whole.exit_code == 0
    piped = CliRunner().invoke(app, ["predict", str(run), str(tmp_path), "--out", "-"])
    assert piped.stdout == out.read_text()


def test_an_unknown_head_is_refused_before_anything_is_read(app: typer.Typer, tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["evaluate", str(tmp_path), "--head", "both"])
    assert result.exit_code == 2
    assert "both" in result.stderr


def test_any_labelled_folder(run: Path, app: typer.Typer, tmp_path: Path) -> None:
    """Folders are matched to classes by name; the model may know more classes, and photos are made grey."""
    images = _arrays(tmp_path / "data.npz")["x_test"]
    predicted = _slow_predictions("one_hot", tmp_path / "data.npz")
    folders = ("Bag", "coat")
    for number, image in enumerate(images):
        file = tmp_path / "photos" / folders[number % 2] / f"{number}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).convert("RGB").save(file)
    evaluation = evaluate_on(run, str(tmp_path / "photos"), "one_hot", device="cpu")
    truth = [NAMES.index(folders[number % 2].lower()) for number in range(7)]
    assert evaluation.confusion.dense().tolist() == confusion_matrix(truth, predicted, labels=[0, 1, 2]).tolist()
    options = ["--on", str(tmp_path / "photos"), "--head", "one_hot", "--json"]
    shown = CliRunner().invoke(app, ["evaluate", str(run), *options])
    assert json.loads(shown.stdout)["test_images"] == 7
    assert json.loads(shown.stdout)["test_accuracy"] == evaluation.accuracy
    test_images = evaluate_on(run, str(tmp_path / "data.npz"), device="cpu")
    assert test_images.confusion.to_json() == evaluate_run(run, device="cpu").confusion.to_json()
    (tmp_path / "photos" / "Bag").rename(tmp_path / "photos" / "hat")
    with pytest.raises(UserError, match=r"unknown class of .*photos: 'hat'"):
        evaluate_on(run, str(tmp_path / "photos"))
