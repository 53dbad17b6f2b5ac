"""Pictures of the training set, from photos and from arrays."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import torch
import yaml
from PIL import Image

from semco.evaluation.pool_labels import write_pseudo_labels
from semco.report.analysis.pictures import training_pictures
from semco.run.folder import RunFolder


def make_run(folder: Path, data: dict[str, str], paths: list[str] | None, count: int) -> Path:
    folder.mkdir()
    (folder / "config.yaml").write_text(yaml.safe_dump({"data": data}))
    index, truth = np.arange(count), np.zeros(count, np.int64)
    write_pseudo_labels(RunFolder(folder).pseudo_labels_file, index, truth, {}, paths)
    return folder


def test_photos_are_read_one_by_one_and_missing_ones_left_out(tmp_path: Path) -> None:
    names = [b"red.png", b"caf\xe9.png", b"gone.png"]
    paths = [os.path.join(os.fsencode(tmp_path), name) for name in names]  # noqa: PTH118 (bytes)
    for path, colour in zip(paths[:2], ((255, 0, 0), (0, 0, 255)), strict=True):
        with open(path, "wb") as file:  # noqa: PTH123 (bytes)
            Image.new("RGB", (30, 20), colour).save(file, "png")
    run = make_run(tmp_path / "run", {"source": "nowhere"}, [os.fsdecode(path) for path in paths], 3)
    pictures = training_pictures(run, [2, 1, 0])
    assert pictures.keys() == {0, 1}
    assert pictures[1].shape == (3, 224, 224)
    assert pictures[1][:, 100, 100].tolist() == [0, 0, 255]
    assert pictures[0][:, 100, 100].tolist() == [255, 0, 0]


def test_arrays_come_from_the_data_set(tmp_path: Path) -> None:
    images = np.arange(3 * 4 * 4, dtype=np.uint8).reshape(3, 4, 4)
    np.savez(tmp_path / "d.npz", x_train=images, y_train=np.array([0, 1, 1]), class_names=np.array(["cat", "dog"]))
    run = make_run(tmp_path / "run", {"source": str(tmp_path / "d.npz")}, None, 3)
    pictures = training_pictures(run, [2])
    assert pictures.keys() == {2}
    assert torch.equal(pictures[2].squeeze(), torch.from_numpy(images[2]))
    assert training_pictures(run, []) == {}


def test_data_that_are_gone_give_no_pictures(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", {"source": str(tmp_path / "gone.npz")}, None, 3)
    assert training_pictures(run, [0, 1]) == {}
