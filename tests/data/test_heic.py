"""Photos in HEIC: read if the package for it is installed, else skipped with the way out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from semco.config import DataConfig
from semco.data import decode as decode_module
from semco.data.decode import decode
from semco.data.heic import is_heic, register_heic
from semco.data.sources import load

pillow_heif = pytest.importorskip("pillow_heif")


def save_heic(path: Path, grey: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    register_heic()
    Image.new("RGB", (64, 64), (grey, grey, grey)).save(path, format="HEIF", quality=90)


def test_pixels(tmp_path: Path) -> None:
    save_heic(tmp_path / "a.heic", 100)
    assert is_heic((tmp_path / "a.heic").read_bytes()[:12])
    assert np.abs(decode(tmp_path / "a.heic", 16).astype(int) - 100).max() <= 2
    (tmp_path / "broken.heic").write_bytes((tmp_path / "a.heic").read_bytes()[:200])
    with pytest.raises(decode_module.DECODE_ERRORS):
        decode(tmp_path / "broken.heic", 16)


def test_without_the_package_they_are_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_heic(tmp_path / "cat/a.heic", 100)
    for name in ("cat/b.png", "dog/c.png"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        Image.new("RGB", (16, 16)).save(tmp_path / name)
    assert len(load(DataConfig(source=str(tmp_path))).train_labels) == 3
    monkeypatch.setattr(decode_module, "register_heic", lambda: False)
    data = load(DataConfig(source=str(tmp_path)))
    assert len(data.train_labels) == 2
    assert data.skipped == (
        f"{tmp_path}/cat/a.heic (it is a HEIC photo, which needs another package: pip install 'semco[heic]')",
    )
