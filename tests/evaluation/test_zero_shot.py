"""Choosing among names that training never saw, from a run on disk to the CSV of the command."""

from __future__ import annotations

import csv
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from semco.cli.main import app
from semco.config import configure
from semco.errors import UserError
from semco.evaluation.model_file import load_model
from semco.evaluation.predict import predict_images
from semco.evaluation.zero_shot import with_classes
from semco.experiment import train

# Colours around the wheel, each a class named by its angle; its vector is the point on the circle.
SEEN, UNSEEN = (0, 60, 120, 180, 240, 300), (30, 210)


def colour(angle: float, rng: np.random.Generator) -> np.ndarray:
    """(8, 8, 3) uint8: one hue, with noise."""
    channels = [127 + 100 * math.cos(math.radians(angle - shift)) for shift in (0, 120, 240)]
    noisy = np.array(channels) + rng.normal(0, 8, size=(8, 8, 3))
    return np.clip(noisy, 0, 255).astype(np.uint8)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """data.npz with the seen colours, vectors.csv with all, photos/ of the unseen ones."""
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


def trained(files: Path, out: Path, method: str, steps: int, **labels: object) -> Path:
    config = configure(
        options={
            "data": {"source": str(files / "data.npz"), "labels_per_class": 10},
            "labels": {"source": "matrix", "path": str(files / "vectors.csv"), **labels},
            "model": {"backbone": "wrn-10-1"},
            "method": {"name": method},
            "augment": {"operations": 0, "cutout": 0.0},
            "training": {"steps": steps, "batch_size": 16, "mu": 1, "device": "cpu"},
        }
    )
    train(config, out)
    return out


@pytest.fixture(scope="module")
def run(files: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trained(files, tmp_path_factory.mktemp("runs") / "devise", "devise", 60)


def test_unseen_colours_are_told_apart(run: Path, files: Path) -> None:
    found = predict_images(run, [files / "photos"], classes=["hue30", "hue210"])
    assert len(found.rows) == 10
    for row in found.rows:
        assert row.label == Path(row.path).name.split("-")[0]
        assert {row.label, row.runner_up} == {"hue30", "hue210"}
        assert row.confidence > 0.9


def test_unseen_among_all(run: Path, files: Path) -> None:
    """With every name offered the answer lies within a neighbour of the truth, most often on it."""
    names = [f"hue{a}" for a in sorted((*SEEN, *UNSEEN))]
    rows = predict_images(run, [files / "photos"], classes=names).rows
    gaps = [abs(int(row.label[3:]) - int(Path(row.path).name[3:].split("-")[0])) for row in rows]
    assert max(gaps) <= 30


def test_the_command(run: Path, files: Path, tmp_path: Path) -> None:
    out = tmp_path / "answers.csv"
    arguments = ["predict", str(run), str(files / "photos"), "--classes", "hue30, hue210", "--out", str(out)]
    assert CliRunner().invoke(app, arguments).exit_code == 0
    with out.open(newline="") as stream:
        assert {row["label"] for row in csv.DictReader(stream)} == {"hue30", "hue210"}


def test_in_a_process_that_has_only_read_the_page(run: Path, files: Path) -> None:
    """Nothing else has been imported there that would make the run's method known."""
    code = (
        "import sys; from pathlib import Path; from semco.evaluation.predict import predict_images\n"
        "run, photos = map(Path, sys.argv[1:])\n"
        "print(len(predict_images(run, [photos], classes=['hue30', 'hue210']).rows))"
    )
    arguments = [sys.executable, "-c", code, str(run), str(files / "photos")]
    assert subprocess.run(arguments, capture_output=True, text=True, check=True).stdout.strip() == "10"


@pytest.mark.parametrize(
    ("classes", "head", "sentence"),
    [
        (["hue30"], None, "at least two classes"),
        (["hue30", "hue30"], None, "each once"),
        (["hue30", "hue31"], None, "hue31"),
        (["hue30", "hue210"], "one_hot", "only the semantic head"),
    ],
)
def test_what_cannot_be_asked(run: Path, files: Path, classes: list[str], head: str | None, sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        predict_images(run, [files / "photos"], head, classes=classes)  # type: ignore[arg-type]


def test_models_that_know_their_own_classes_only(files: Path, tmp_path: Path) -> None:
    plain = trained(files, tmp_path / "plain", "supervised", 1)
    with pytest.raises(UserError, match="need a model with a semantic head"):
        predict_images(plain, [files / "photos"], classes=["hue30", "hue210"])
    one_hot = trained(files, tmp_path / "one-hot", "devise", 1, targets="one_hot")
    with pytest.raises(UserError, match="knows its own classes only"):
        predict_images(one_hot, [files / "photos"], classes=["hue30", "hue210"])


@pytest.mark.parametrize("targets", ["centred", "embedding"])
def test_other_classes_are_seen_from_where_the_head_was_taught(files: Path, tmp_path: Path, targets: str) -> None:
    """The vectors of half the wheel have their mean at (0, 2/3) or so; from there the unseen ones look different."""
    folder = tmp_path / "files"
    folder.mkdir()
    with np.load(files / "data.npz") as data:
        half = {name: data[name] for name in data.files}
    for part in ("train", "test"):
        kept = half[f"y_{part}"] < 4
        half[f"x_{part}"], half[f"y_{part}"] = half[f"x_{part}"][kept], half[f"y_{part}"][kept]
    np.savez(folder / "data.npz", **{**half, "class_names": half["class_names"][:4]})
    (folder / "vectors.csv").write_text((files / "vectors.csv").read_text())
    run = trained(folder, tmp_path / "run", "devise", 1, targets=targets)
    model = with_classes(load_model(run / "model"), run, ["hue30", "hue210"])
    seen = np.array([[math.cos(math.radians(a)), math.sin(math.radians(a))] for a in SEEN[:4]])
    expected = np.array([[math.cos(math.radians(a)), math.sin(math.radians(a))] for a in UNSEEN])
    if targets == "centred":
        expected -= seen.mean(axis=0)
        expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(model.label_vectors.numpy(), expected, atol=1e-5)
