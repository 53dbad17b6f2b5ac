"""The script that made the bundled images, on a small package of the same layout."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from tests.conftest import load_script

RNG = np.random.default_rng(0)


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    module = load_script("make_fashion_mini")
    monkeypatch.setattr(module, "TRAIN_PER_CLASS", 5)
    monkeypatch.setattr(module, "TEST_PER_CLASS", 3)
    return module


@pytest.fixture
def tarball(tmp_path: Path) -> Path:
    """Eight images per class whose first pixel is the class id, one of them twice, and an empty row."""
    path = tmp_path / "package.tgz"
    with tarfile.open(path, "w:gz") as archive:
        for number in range(10):
            images = RNG.integers(0, 256, (8, 784))
            images[:, 0] = number
            rows = [*images.tolist(), images[2].tolist(), []]
            content = json.dumps({"data": rows}).encode()
            entry = tarfile.TarInfo(f"package/src/clothes/{number}.json")
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return path


def test_stratified_disjoint_and_labelled(script: ModuleType, tarball: Path) -> None:
    made = script.draw(script.read_classes(tarball))
    assert np.bincount(made["y_train"]).tolist() == [5] * 10
    assert np.bincount(made["y_test"]).tolist() == [3] * 10
    for part in ("train", "test"):
        assert np.array_equal(made[f"x_{part}"][:, 0, 0], made[f"y_{part}"])
    images = np.concatenate([made["x_train"], made["x_test"]])
    assert len({image.tobytes() for image in images}) == 80


def test_the_same_package_gives_the_same_bytes(script: ModuleType, tarball: Path, tmp_path: Path) -> None:
    written = []
    for name in ("a.npz", "b.npz"):
        script.write(tmp_path / name, script.draw(script.read_classes(tarball)))
        written.append((tmp_path / name).read_bytes())
    assert written[0] == written[1]
    with np.load(tmp_path / "a.npz", allow_pickle=False) as file:
        assert file["class_names"].tolist()[-1] == "ankle boot"
