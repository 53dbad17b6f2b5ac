"""A model that follows the labels: it answers what a run with the same labels answers, and gives way to newer ones."""

from __future__ import annotations

import json
import shutil
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from semco.config import Config, configure, merge
from semco.data.datasets import Dataset
from semco.data.sources import load
from semco.errors import UserError
from semco.experiment import train
from semco.experiment.cross_validation import Measured
from semco.models.pretrained import is_installed
from semco.run.folder import RunFolder
from semco.studio.journal import ClassTable
from semco.studio.live import Labelled, LiveModel, OutdatedError
from semco.studio.live_job import Live, without_label
from semco.studio.photos import Photos
from semco.studio.training import Job
from semco.training.observer import NullObserver
from tests.experiment.test_pretrained_runs import write_weights
from tests.studio.studio_server import Studio, copy_fruit

CLASSES = ("granny smith", "orange", "watermelon")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def request_config(tiny_values: dict[str, Any], tmp_path: Path) -> Config:
    weights = write_weights(tmp_path / "weights.safetensors", seed=5)
    own = {
        "data": {"labels_per_class": None, "validation": "none"},
        "model": {"weights": str(weights)},
        "training": {"steps": None},
    }
    return configure(options=merge(tiny_values, own))


@pytest.fixture
def dataset(request_config: Config) -> Dataset:
    return load(request_config.data)


def labelled(dataset: Dataset, per_class: int) -> Labelled:
    """Return the first labels of each class."""
    truth = dataset.train_labels.numpy()
    class_ids = np.full(len(truth), -1)
    for class_id in range(dataset.num_classes):
        own = np.flatnonzero(truth == class_id)[:per_class]
        class_ids[own] = class_id
    assert dataset.test_labels is not None
    return Labelled(dataset.class_names, class_ids, dataset.test_labels.numpy(), {})


@pytest.mark.usefixtures("no_page", "each_probe_is_fitted_once")
@pytest.mark.parametrize("keeps_probe", [False, True])
def test_it_answers_what_a_run_answers(
    request_config: Config, dataset: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keeps_probe: bool
) -> None:
    import torch

    monkeypatch.setattr(Measured, "is_probe_better", lambda _: keeps_probe)
    labels = labelled(dataset, 3)
    model = LiveModel(request_config, dataset, tmp_path / "live", NullObserver())
    own = replace(dataset, train_labels=torch.from_numpy(labels.class_ids))
    result = train(request_config, tmp_path / "run", dataset=own)
    table = pq.read_table(RunFolder(tmp_path / "run").pseudo_labels_file).to_pylist()
    expected = {row["index"]: row for row in table if labels.class_ids[row["index"]] < 0}
    context = model.context(labels)
    found = model.measure(context, lambda: False)
    assert found.photos.tolist() == sorted(expected)
    names = [expected[photo]["name_one_hot"] for photo in found.photos.tolist()]
    assert [dataset.class_names[guess] for guess in found.guesses] == names
    confidence = [expected[photo]["confidence_one_hot"] for photo in found.photos.tolist()]
    assert found.confidence == pytest.approx(confidence, abs=1e-3)
    assert found.measured is not None
    assert found.measured.accuracy == result.accuracy
    assert result.probe is not None
    probe = found.measured.probe_result(is_kept=keeps_probe)
    assert probe is not None
    assert probe.accuracy == result.probe.accuracy
    if not keeps_probe:  # the quick answers are the same
        quick = model.fit(model.context(labels))
        assert quick.guesses.tolist() == found.guesses.tolist()
        assert quick.confidence == pytest.approx(found.confidence, abs=1e-4)
        assert quick.measured is None


@pytest.mark.usefixtures("each_probe_is_fitted_once")
def test_newer_labels_end_a_measurement(request_config: Config, dataset: Dataset, tmp_path: Path) -> None:
    model = LiveModel(request_config, dataset, tmp_path / "live", NullObserver())
    asked: list[bool] = []

    def is_outdated() -> bool:
        asked.append(len(asked) == 2)
        return asked[-1]

    with pytest.raises(OutdatedError):
        model.measure(model.context(labelled(dataset, 3)), is_outdated)
    assert asked == [False, False, True]


def test_a_method_that_takes_steps_is_left_to_the_rounds(
    request_config: Config, dataset: Dataset, tmp_path: Path
) -> None:
    stepping = request_config.model_copy(update={"training": request_config.training.model_copy(update={"steps": 8})})
    with pytest.raises(UserError, match="trained in rounds"):
        LiveModel(stepping, dataset, tmp_path / "live", NullObserver())


def test_labels_are_handed_over_when_every_class_has_one(
    tmp_path: Path, request_config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Job, "start", lambda *_: None)
    photos = Photos(copy_fruit(tmp_path / "photos", CLASSES, 2), tmp_path / "thumbnails")
    live = Live(tmp_path / "live", photos, request_config)
    live.start()
    table = ClassTable().add("apple", "pear")
    file = tmp_path / "live/labels.json"
    assert without_label(table, {0: 2}) == [1]
    live.submit(4, table, {0: 2}, {})
    assert (live.submitted, file.exists()) == (0, False)
    live.submit(5, table, {0: 2, 3: 1}, {"test/pear/1.jpg": "pear", "test/plum/2.jpg": None})
    values = json.loads(file.read_text())
    assert (live.submitted, values["seq"], values["photos"], values["class_ids"]) == (5, 5, [0, 3], [1, 0])
    assert (values["classes"], values["names"], values["test_ids"]) == ([1, 2], ["apple", "pear"], [1, -1])

    assert live.answers(table.names) is None
    answers = {"version": 1, "photos": [1, 2], "guesses": [1, 2], "confidence": [0.75, 0.5], "places": [0, 1]}
    (tmp_path / "live/answers.json").write_text(json.dumps(answers))
    (tmp_path / "live/live.status.json").write_text(json.dumps({"state": "running", "version": 1, "seq": 5}))
    monkeypatch.setattr(Job, "_is_alive", lambda _: True)
    found = live.answers({2: "pear"})  # apple was removed
    assert found is not None
    assert (found.numbers.tolist(), found.guesses.tolist(), found.places.tolist()) == ([1, 2], [-1, 2], [0, 1])
    assert live.status()["version"] == 1
    monkeypatch.setattr(Job, "_is_alive", lambda _: False)  # the process was killed: rounds answer again
    assert (live.answers(table.names), live.status()["version"], live.status()["state"]) == (None, 0, "stopped")
    live.start()  # photos may have other numbers now
    assert not file.exists()


@pytest.mark.usefixtures("forked_processes")
@pytest.mark.skipif(not is_installed("efficientnet-lite2"), reason="the weights are not installed")
def test_the_wall_follows_the_labels(tmp_path: Path) -> None:
    """From folders to answers without a click: class folders, photos without a label, test photos."""
    photos = tmp_path / "photos"
    for name in CLASSES:
        flat = copy_fruit(tmp_path / name, (name,), 9)
        for number, photo in enumerate(sorted(flat.iterdir())):
            folder = photos / (name if number < 3 else "unlabeled" if number < 6 else f"test/{name}")
            folder.mkdir(parents=True, exist_ok=True)
            shutil.move(photo, folder / photo.name)
    (photos / "unlabeled" / "broken.jpg").write_bytes(b"no photo")
    with Studio(photos, tmp_path / "project", (), ("data.image_size=64",), is_live=True) as studio:
        live = wait(studio, lambda live: live["accuracy"])
        assert (live["seq"], live["wanted"], live["accuracy"]["photos"]) == (1, 1, "9 test images")
        assert "linear probe" in live["accuracy"]["probe"]
        view = studio.ask("/api/view?order=useful&labelled=no")[1]
        assert (len(view["numbers"]), sum(guess > 0 for guess in view["guesses"])) == (10, 9)  # one is broken
        assert studio.ask("/api/review")[1]["accuracy"] == live["accuracy"]
        photo = view["numbers"][0]
        blind = studio.ask("/api/view?order=random&labelled=no")[1]
        assert (sorted(blind["numbers"]), "guesses" in blind) == (sorted(view["numbers"]), False)
        answer = {"photos": [photo], "label": view["guesses"][0], "seen": 1, "blind": True}
        assert studio.ask("/api/labels", answer)[0] == 200
        wait(studio, lambda live: live["seq"] == 2)
        assert photo not in studio.project.answers().numbers.tolist()  # type: ignore[union-attr]
        checked = studio.ask("/api/review")[1]["checked"]
        assert (checked["right"], checked["count"]) == (1, 1)


def wait(studio: Studio, is_there: Any) -> dict[str, Any]:
    end = time.monotonic() + 240
    while not is_there(live := studio.ask("/api/live")[1]):
        assert live["state"] == "running", live
        assert time.monotonic() < end, live
        time.sleep(0.1)
    return dict(live)
