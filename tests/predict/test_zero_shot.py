"""Predicting classes without training images, from a run folder to the CSV of the command."""

from __future__ import annotations

import csv
import math
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from semco.cli.main import app
from semco.config import configure
from semco.errors import UserError
from semco.evaluation.model_file import load_model
from semco.experiment import train
from semco.predict.images import predict_images
from semco.predict.zero_shot import with_classes

pytestmark = pytest.mark.usefixtures("no_page")
# Hues of the colour wheel: each is a class, named by its angle, whose label vector is the point on the circle.
SEEN, UNSEEN = (0, 60, 120, 180, 240, 300), (30, 210)


def colour(angle: float, rng: np.random.Generator) -> np.ndarray:
    """Return an image (8, 8, 3) uint8 of one hue, with noise."""
    channels = [127 + 100 * math.cos(math.radians(angle - shift)) for shift in (0, 120, 240)]
    noisy = np.array(channels) + rng.normal(0, 8, size=(8, 8, 3))
    return np.clip(noisy, 0, 255).astype(np.uint8)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with data.npz of the seen hues, vectors.csv of all, and photos/ of the unseen ones."""
    folder, rng = tmp_path_factory.mktemp("colours"), np.random.default_rng(0)
    angles = np.repeat(SEEN, 20)
    images = np.stack([colour(angle, rng) for angle in angles])
    labels = np.repeat(np.arange(len(SEEN)), 20)
    names = np.array([f"hue{angle}" for angle in SEEN])
    np.savez(
        folder / "data.npz", x_train=images, y_train=labels, x_test=images[::5], y_test=labels[::5], class_names=names
    )
    rows = [f"hue{a},{math.cos(math.radians(a))},{math.sin(math.radians(a))}" for a in (*SEEN, *UNSEEN)]
    (folder / "vectors.csv").write_text("\n".join(["name,x,y", *rows]) + "\n")
    for angle in UNSEEN:
        (folder / "photos").mkdir(exist_ok=True)
        for i in range(5):
            Image.fromarray(colour(angle, rng)).save(folder / "photos" / f"hue{angle}-{i}.png")
    return folder


def train_run(files: Path, out: Path, method: Mapping[str, object], steps: int, **labels: object) -> Path:
    config = configure(
        options={
            "data": {"source": str(files / "data.npz"), "labels_per_class": 10},
            "labels": {"source": "matrix", "path": str(files / "vectors.csv"), **labels},
            "model": {"backbone": "wrn-10-1"},
            "method": method,
            "augment": {"operations": 0, "cutout": 0.0},
            "training": {"steps": steps, "batch_size": 16, "mu": 1, "device": "cpu"},
        }
    )
    train(config, out)
    return out


@pytest.fixture(scope="module")
def run(files: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train_run(files, tmp_path_factory.mktemp("runs") / "devise", {"name": "devise"}, 60)


def test_unseen_classes_are_predicted(run: Path, files: Path) -> None:
    found = predict_images(run, [files / "photos"], classes=["hue30", "hue210"])
    assert len(found.rows) == 10
    for row in found.rows:
        assert row.label == Path(row.path).name.split("-")[0]
        assert {row.label, row.runner_up} == {"hue30", "hue210"}
        assert row.confidence > 0.9


def test_unseen_classes_among_all_classes(run: Path, files: Path) -> None:
    """If all classes can be chosen, the prediction is the true hue or one next to it."""
    names = [f"hue{a}" for a in sorted((*SEEN, *UNSEEN))]
    rows = predict_images(run, [files / "photos"], classes=names).rows
    gaps = [abs(int(row.label[3:]) - int(Path(row.path).name[3:].split("-")[0])) for row in rows]
    assert max(gaps) <= 30


def test_the_command(run: Path, files: Path, tmp_path: Path) -> None:
    out = tmp_path / "predictions.csv"
    arguments = ["predict", str(run), str(files / "photos"), "--classes", "hue30, hue210", "--out", str(out)]
    assert CliRunner().invoke(app, arguments).exit_code == 0
    with out.open(newline="") as stream:
        assert {row["label"] for row in csv.DictReader(stream)} == {"hue30", "hue210"}


def test_prediction_in_a_new_process(run: Path, files: Path) -> None:
    """The methods are registered without importing anything else."""
    code = (
        "import sys; from pathlib import Path; from semco.predict.images import predict_images\n"
        "run, photos = map(Path, sys.argv[1:])\n"
        "print(len(predict_images(run, [photos], classes=['hue30', 'hue210']).rows))"
    )
    arguments = [sys.executable, "-c", code, str(run), str(files / "photos")]
    assert subprocess.run(arguments, capture_output=True, text=True, check=True).stdout.strip() == "10"


@pytest.mark.parametrize(
    ("classes", "head", "sentence"),
    [
        (["hue30"], None, "at least two different classes"),
        (["hue30", "hue30"], None, "at least two different classes"),
        (["hue30", "hue31"], None, "hue31"),
        (["hue30", "hue210"], "one_hot", "only the semantic head"),
    ],
)
def test_classes_that_cannot_be_predicted(
    run: Path, files: Path, classes: list[str], head: str | None, sentence: str
) -> None:
    with pytest.raises(UserError, match=sentence):
        predict_images(run, [files / "photos"], head, classes=classes)  # type: ignore[arg-type]


def test_models_that_can_only_predict_their_own_classes(files: Path, tmp_path: Path) -> None:
    plain = train_run(files, tmp_path / "plain", {"name": "supervised"}, 1)
    with pytest.raises(UserError, match="need a model with a semantic head"):
        predict_images(plain, [files / "photos"], classes=["hue30", "hue210"])
    one_hot = train_run(files, tmp_path / "one-hot", {"name": "devise"}, 1, targets="one_hot")
    with pytest.raises(UserError, match="can only predict its own classes"):
        predict_images(one_hot, [files / "photos"], classes=["hue30", "hue210"])


@pytest.mark.parametrize("vectors", ["centred", "as_given"])
def test_vectors_of_other_classes_are_centred_as_in_training(files: Path, tmp_path: Path, vectors: str) -> None:
    """Half of the colour wheel has a mean vector of about (0, 2/3), so that centring changes the unseen classes."""
    folder = tmp_path / "files"
    folder.mkdir()
    with np.load(files / "data.npz") as data:
        half = {name: data[name] for name in data.files}
    for part in ("train", "test"):
        kept = half[f"y_{part}"] < 4
        half[f"x_{part}"], half[f"y_{part}"] = half[f"x_{part}"][kept], half[f"y_{part}"][kept]
    np.savez(folder / "data.npz", **{**half, "class_names": half["class_names"][:4]})
    (folder / "vectors.csv").write_text((files / "vectors.csv").read_text())
    run = train_run(folder, tmp_path / "run", {"name": "devise", "vectors": vectors}, 1)
    model = with_classes(load_model(run / "model"), run, ["hue30", "hue210"])
    seen = np.array([[math.cos(math.radians(a)), math.sin(math.radians(a))] for a in SEEN[:4]])
    expected = np.array([[math.cos(math.radians(a)), math.sin(math.radians(a))] for a in UNSEEN])
    if vectors == "centred":
        expected -= seen.mean(axis=0)
        expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(model.label_vectors.numpy(), expected, atol=1e-5)
