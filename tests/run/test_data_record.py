"""What a run records of its data, and what it says when they have changed."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from PIL import Image

from semco.config import Config, DataConfig
from semco.data.datasets import Dataset
from semco.data.listing import Listing, Part
from semco.errors import UserError
from semco.evaluation.run import evaluate_run
from semco.experiment import resume, train
from semco.run.data_record import Changes, changes_of_dataset, changes_of_listing, read_data, write_data_record
from semco.training.observer import NullObserver


class Messages(NullObserver):
    def __init__(self) -> None:
        self.texts: list[str] = []

    def on_message(self, text: str) -> None:
        self.texts.append(text)


def dataset_of(root: Path, names: list[str], labels: list[int], skipped: tuple[str, ...] = ()) -> Dataset:
    images = torch.zeros((len(names), 3, 8, 8), dtype=torch.uint8)
    paths = tuple(str(root / name) for name in names)
    return Dataset(str(root), images, torch.tensor(labels), ("cat", "dog"), train_paths=paths, skipped=skipped)


class TestRecord:
    def test_every_kind_of_change_is_named(self, tmp_path: Path) -> None:
        root, run = tmp_path / "photos", tmp_path / "run"
        root.mkdir()
        for name in "abcd":
            (root / name).write_bytes(b"12")
        config = DataConfig(source=str(root))
        write_data_record(run, config, dataset_of(root, ["a", "b", "c", "d"], [0, 1, -1, 0]))
        (root / "d").write_bytes(b"longer")
        changes = changes_of_dataset(run, config, dataset_of(root, ["a", "b", "d", "new"], [0, 0, 0, 1]))
        assert changes == Changes(added=["new"], removed=["c"], relabelled=["b"], resized=["d"])
        assert changes.describe() == "1 added (new); 1 removed (c); 1 relabelled (b); 1 changed (d)"
        assert not changes_of_dataset(run, config, dataset_of(root, ["a", "b", "c"], [0, 1, -1])).added  # type: ignore[union-attr]

    def test_data_that_were_moved_have_not_changed(self, tmp_path: Path) -> None:
        for place in ("old", "new"):
            (tmp_path / place).mkdir()
            (tmp_path / place / "a").write_bytes(b"12")
        old, new = (dataset_of(tmp_path / place, ["a"], [0]) for place in ("old", "new"))
        write_data_record(tmp_path / "run", DataConfig(source=str(tmp_path / "old")), old)
        changes = changes_of_dataset(tmp_path / "run", DataConfig(source=str(tmp_path / "new")), new)
        assert changes is not None
        assert not changes

    def test_skipped_images_are_no_change(self, tmp_path: Path) -> None:
        skipped = f"{tmp_path}/photo (1).png (it is not an image (really))"
        write_data_record(tmp_path, DataConfig(source=str(tmp_path)), dataset_of(tmp_path, ["a"], [0], (skipped,)))
        assert read_data(tmp_path)["skipped"] == [skipped]
        part = Part()
        part.add_files([f"{tmp_path}/a", f"{tmp_path}/photo (1).png"], 0)
        listing = Listing(("cat", "dog"), part, Part())
        assert not changes_of_listing(tmp_path, DataConfig(source=str(tmp_path)), listing)

    def test_names_that_are_not_utf_8(self, tmp_path: Path) -> None:
        data = dataset_of(tmp_path, ["caf\udce9.png"], [0])
        write_data_record(tmp_path, DataConfig(source=str(tmp_path)), data)
        changes = changes_of_dataset(tmp_path, DataConfig(source=str(tmp_path)), data)
        assert changes is not None
        assert not changes

    def test_runs_that_have_written_nothing_yet(self, tmp_path: Path) -> None:
        assert read_data(tmp_path) == {}
        assert changes_of_dataset(tmp_path, DataConfig(source=str(tmp_path)), dataset_of(tmp_path, ["a"], [0])) is None

    def test_a_damaged_table(self, tmp_path: Path) -> None:
        (tmp_path / "data_files.parquet").write_bytes(b"PAR1")
        with pytest.raises(UserError, match=r"data_files.parquet is damaged .*remove it"):
            changes_of_dataset(tmp_path, DataConfig(), dataset_of(tmp_path, ["a"], [0]))


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    root = tmp_path / "photos"
    for place in ("cat", "dog", "unlabeled", "test/cat", "test/dog"):
        (root / place).mkdir(parents=True)
        for number in range(3):
            Image.new("RGB", (8, 8), (40 * number, len(place) * 10, 0)).save(root / place / f"{number}.png")
    (root / "dog/bad.png").write_bytes(b"no image")
    return root


def test_a_run_whose_data_change(photos: Path, tmp_path: Path) -> None:
    values = {
        "data": {"source": str(photos)},
        "model": {"backbone": "wrn-10-1", "pretrained": "none"},
        "method": {"name": "supervised"},
        "training": {"steps": 1, "batch_size": 2, "device": "cpu"},
    }
    run, messages = tmp_path / "run", Messages()
    result = train(Config.parse(values), run)
    assert result.skipped_images == 1
    page = (run / "report.html").read_text()
    assert "1 image could not be read and was skipped" in page
    assert "dog/bad.png (it is not an image in a known format)" in page
    resume(run, messages)
    assert messages.texts == []
    (photos / "cat/0.png").unlink()
    Image.new("RGB", (8, 8)).save(photos / "dog/new.png")
    resume(run, messages)
    expected = "the data have changed since this run was trained: 1 added (dog/new.png); 1 removed (cat/0.png)"
    assert messages.texts == [expected]
    with pytest.raises(UserError, match=r"other inputs than it has now .*1 added \(dog/new.png\); 1 removed"):
        evaluate_run(run)
    (run / "result.json").unlink()
    with pytest.raises(
        UserError, match=r"the data have changed since .*run was started: 1 added \(dog/new.png\); 1 rem"
    ):
        resume(run)
