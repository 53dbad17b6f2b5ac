"""Suggesting images to label, and continuing a run with more labels."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from PIL import Image
from safetensors.torch import load_file

from semco.config import Config, merge
from semco.data.sources import load
from semco.data.split import Split
from semco.errors import UserError
from semco.experiment import train, write
from semco.experiment.continuation import continue_run, read_labels
from semco.predict.predictor import load as load_predictor
from semco.run.folder import RunFolder
from semco.suggestions import suggest as suggestions
from semco.suggestions.suggest import cover, suggest, write_suggestions
from tests.conftest import CLASSES, tiny_images

pytestmark = pytest.mark.usefixtures("no_page")


def unit(*degrees: float) -> np.ndarray:
    radians = np.radians(degrees)
    return np.stack([np.cos(radians), np.sin(radians)], axis=1).astype(np.float32)


def test_images_that_cover_the_others() -> None:
    """Three images in one direction, two in another, one in a third; a labelled one is opposite to the two."""
    features = unit(0, 1, 2, 90, 91, 180)
    found = cover(features, unit(270), 3)
    assert [position for position, _ in found] == [2, 4, 5]
    # Distances at the start: about 1 for the three, 2 for the two, 1 for the last: 8. The first label brings the three
    # to 0 and the two to 1: 5 of 8 are gone. The second removes the 2 that these two have left, the third the last 1.
    np.testing.assert_allclose([worth for _, worth in found], [5 / 8, 2 / 8, 1 / 8], atol=0.02)


def test_cover_equals_a_slow_version() -> None:
    rng = np.random.default_rng(0)
    points, labelled = (rng.normal(size=(n, 4)).astype(np.float32) for n in (40, 5))
    points, labelled = (each / np.linalg.norm(each, axis=1, keepdims=True) for each in (points, labelled))
    found, known = cover(points, labelled, 6), list(labelled)
    for position, _ in found:

        def closeness_with(candidate: int, known: list[np.ndarray] = known) -> float:
            return sum(max(float(point @ other) for other in [*known, points[candidate]]) for point in points)

        assert position == max(range(len(points)), key=closeness_with)
        known.append(points[position])


def test_near_duplicates_are_not_chosen() -> None:
    features = unit(0, 1, 90, 91, 180)
    assert {position for position, _ in cover(features, unit(90.5), 5)} in ({0, 4}, {1, 4})


def test_large_pools_are_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suggestions, "MOST_CANDIDATES", 12)
    monkeypatch.setattr(suggestions, "MOST_POINTS", 9)
    features = unit(*range(0, 360, 10))
    for count in (5, 12, 20):
        found = [position for position, _ in cover(features, unit(), count)]
        assert len(set(found)) == count


@pytest.fixture(scope="module")
def run(tiny_values: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("learning") / "run"
    train(Config.parse(tiny_values), folder)
    return folder


def test_suggestions_become_labels_of_a_new_run(run: Path, tmp_path: Path) -> None:
    found = suggest(run, 6)
    dataset = load(RunFolder(run).config().data)
    split = Split.from_json((run / "split.json").read_text(), dataset.train_labels)
    positions = [each.position for each in found]
    assert len(set(positions)) == 6
    assert not set(positions) & set(split.labelled.tolist())
    assert [each.worth for each in found] == sorted((each.worth for each in found), reverse=True)
    write_suggestions(tmp_path, found)
    assert (tmp_path / "suggestions.html").read_text().count("<figure ") == 6
    file = tmp_path / "suggestions.csv"
    with pytest.raises(UserError, match="has no row with a label"):
        continue_run(run, file, tmp_path / "new")
    with file.open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    for row in rows[:5]:  # one is left without a label
        row["label"] = CLASSES[int(dataset.train_labels[int(row["index"])])]
    with file.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    result = continue_run(run, file, tmp_path / "new", steps=2)
    assert (result.num_labels, result.steps) == (len(split.labelled) + 5, 2)
    parent = json.loads((tmp_path / "new" / "parent.json").read_text())
    assert (parent["parent"], parent["added_labels"]) == (str(run), 5)
    config = RunFolder(tmp_path / "new").config()
    assert config.model.weights == run / "model" / "model.safetensors"
    again = Split.from_json((tmp_path / "new" / "split.json").read_text(), dataset.train_labels)
    assert set(again.labelled) == set(split.labelled) | {int(row["index"]) for row in rows[:5]}
    # Two steps with a small learning rate leave the backbone close to where the parent ended.
    before, after = (load_file(folder / "model" / "model.safetensors") for folder in (run, tmp_path / "new"))
    name = "backbone.stem.weight" if "backbone.stem.weight" in before else next(n for n in before if "conv" in n)
    assert float((before[name] - after[name]).abs().mean()) < 0.1 * float(before[name].abs().mean())


def test_the_run_itself_keeps_the_suggestions(
    tiny_values: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The places in the table of pseudo-labels are those of `suggest`, which runs the network again."""
    monkeypatch.setattr(write, "SUGGESTED", 7)
    train(Config.parse(tiny_values), tmp_path / "run")
    rows = pq.read_table(tmp_path / "run" / "pseudo_labels.parquet", columns=["index", "suggested"]).to_pylist()
    placed = sorted((row["suggested"], row["index"]) for row in rows if row["suggested"] is not None)
    assert [place for place, _ in placed] == [1, 2, 3, 4, 5, 6, 7]
    assert [position for _, position in placed] == [each.position for each in suggest(tmp_path / "run", 7)]


def test_accuracy_on_the_labelled_images_is_logged(run: Path) -> None:
    """The last value is that of the saved model, which `semco.load` runs on the same images."""
    dataset = load(RunFolder(run).config().data)
    labelled = Split.from_json((run / "split.json").read_text(), dataset.train_labels).labelled
    images = dataset.train_images[labelled].permute(0, 2, 3, 1).numpy()
    found = [each.label for each in load_predictor(run).predict(list(images))]
    right = np.mean([name == CLASSES[int(dataset.train_labels[i])] for name, i in zip(found, labelled, strict=True)])
    *_, last = RunFolder(run).metrics()
    assert last["labelled_accuracy"] == pytest.approx(right)


def _labels_of_rows(folder: Path, rows: str) -> list[tuple[str, str]]:
    """Return the names and classes of the images that a table with these rows labels."""
    dataset = load(RunFolder(folder / "run").config().data)
    (folder / "rows.csv").write_text(f"path,label,split\n{rows}\n")
    found = read_labels(folder / "rows.csv", dataset, folder / "photos")
    assert dataset.train_paths is not None
    return [(Path(dataset.train_paths[i]).name, dataset.class_names[label]) for i, label in found.items()]


def test_a_folder_gets_labels_from_a_table(tiny_values: dict[str, Any], tmp_path: Path) -> None:
    images, labels = tiny_images(6, seed=0)
    for number, (image, label) in enumerate(zip(images, labels, strict=True)):
        part = CLASSES[label] if number % 6 < 4 else "unlabeled"
        part = f"test/{CLASSES[label]}" if number % 6 == 0 else part
        file = tmp_path / "photos" / part / f"{number}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).convert("RGB").save(file)
    (tmp_path / "photos/val/dog").mkdir(parents=True)
    Image.new("RGB", (8, 8)).save(tmp_path / "photos/val/dog/held.png")
    data = {"source": str(tmp_path / "photos"), "labels_per_class": None, "image_size": 8}
    values = merge(tiny_values, {"data": data, "training": {"steps": 2}})
    train(Config.parse(values), tmp_path / "run")
    (tmp_path / "new.csv").write_text("path,label\nphotos/unlabeled/4.png,dog\nphotos/unlabeled/5.png,\n")
    result = continue_run(tmp_path / "run", tmp_path / "new.csv", tmp_path / "next")
    assert result.num_labels == 4 * 3 + 1
    assert (result.test_images, result.validation_images) == (4, 1)
    table = (tmp_path / "next.labels.csv").read_text().splitlines()
    assert f"{tmp_path}/photos/unlabeled/4.png,dog,train" in table
    assert f"{tmp_path}/photos/val/dog/held.png,dog,val" in table
    assert _labels_of_rows(tmp_path, "unlabeled/4.png,dog,") == [("4.png", "dog")]  # relative to the photos
    (first,) = (tmp_path / "photos").glob("*/1.png")
    rows = f"photos/unlabeled/4.png,dog,train\n{first},dog,\ntest/cat/0.png,cat,test"
    assert sorted(_labels_of_rows(tmp_path, rows)) == [("1.png", "dog"), ("4.png", "dog")]
    (tmp_path / "new.csv").write_text("path,label\nphotos/unlabeled/gone.png,dog\n")
    with pytest.raises(UserError, match=r"new\.csv, line 2: there is no training image 'photos/unlabeled/gone\.png'"):
        continue_run(tmp_path / "run", tmp_path / "new.csv", tmp_path / "third")
    (tmp_path / "new.csv").write_text("path,label\nphotos/unlabeled/4.png,dragon\n")
    with pytest.raises(UserError, match=r"unknown class in .*new\.csv, line 2: 'dragon'"):
        continue_run(tmp_path / "run", tmp_path / "new.csv", tmp_path / "third")
    with pytest.raises(UserError, match="ask for 1 to"):
        suggest(tmp_path / "run", 1000)
