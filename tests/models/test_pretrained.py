"""Weights from packages and from files of one's own: what fits is loaded, what does not is named."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from semco.config import ModelConfig
from semco.errors import UserError
from semco.models import Backbone, build_backbone
from semco.models.pretrained import PUBLISHED_WEIGHTS, is_installed, load_published, load_weights

NAME = "efficientnet-lite0"
WEIGHTS = PUBLISHED_WEIGHTS[NAME]


def small(seed: int = 0, name: str = "wrn-10-1") -> Backbone:
    torch.manual_seed(seed)
    return build_backbone(ModelConfig(backbone=name, pretrained="none"), 3, 32)


def written(folder: Path, tensors: dict[str, Tensor], metadata: dict[str, str] | None = None) -> Path:
    file = folder / "weights.safetensors"
    save_file(tensors, file, metadata)
    return file


def package(folder: Path, content: bytes | None, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Install a package that holds this content instead of the weights."""
    inside = folder / WEIGHTS.package / "models"
    inside.mkdir(parents=True)
    (inside.parent / "__init__.py").write_text("raise AssertionError('imported')\n", encoding="utf-8")
    if content is not None:
        (inside / WEIGHTS.file).write_bytes(content)
    monkeypatch.syspath_prepend(str(folder))
    return inside / WEIGHTS.file


def test_the_package_is_found_without_importing_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = package(tmp_path, b"", monkeypatch)
    assert WEIGHTS.path() == file
    assert is_installed(NAME)
    assert not is_installed("wrn-28-2")


def test_another_file_than_the_published_one_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    damaged = io.BytesIO()
    torch.save({"_fc.weight": torch.zeros(1)}, damaged)
    package(tmp_path, damaged.getvalue(), monkeypatch)
    with pytest.raises(UserError, match=r"is not the published file \(its sha256 is not 579344248a93\.\.\.\)"):
        load_published(small(name=NAME), NAME)


def test_an_incomplete_package_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package(tmp_path, None, monkeypatch)
    assert not is_installed(NAME)
    with pytest.raises(UserError, match=r"57934424\.pth is missing"):
        load_published(small(name=NAME), NAME)


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("semco.models.pretrained.find_spec", lambda _: None)
    sentence = r"not installed: pip install 'semco\[pretrained\]', or .* model\.pretrained=none"
    with pytest.raises(UserError, match=sentence):
        build_backbone(ModelConfig(backbone=NAME), 3, 32)
    assert build_backbone(ModelConfig(backbone=NAME, pretrained="none"), 3, 32).provenance == ""
    assert build_backbone(ModelConfig(backbone=NAME), 3, 32, saved={}).provenance == ""


@pytest.mark.parametrize("name", PUBLISHED_WEIGHTS)
def test_the_table_is_complete(name: str) -> None:
    weights = PUBLISHED_WEIGHTS[name]
    assert len(weights.sha256) == 64
    assert weights.sha256[:8] in weights.file
    assert weights.licence == "Apache-2.0"
    assert weights.reference.startswith("https://")


@pytest.mark.parametrize("prefix", ["", "backbone."])
def test_own_weights_are_loaded(prefix: str, tmp_path: Path) -> None:
    """Those of a backbone alone, or the model of a run, whose heads are left out."""
    own, other = small(1), small(2)
    tensors = {f"{prefix}{key}": tensor for key, tensor in own.state_dict().items()}
    if prefix:
        tensors["heads.one_hot.weight"] = torch.zeros(3, 64)
    load_weights(other, written(tmp_path, tensors))
    for mine, yours in zip(own.state_dict().values(), other.state_dict().values(), strict=True):
        assert torch.equal(mine, yours)
    assert other.provenance.startswith("weights of weights.safetensors (sha256 ")


def test_the_origin_of_the_weights_is_handed_on(tmp_path: Path) -> None:
    own = small(1)
    load_weights(own, written(tmp_path, small(2).state_dict(), {"provenance": "a package, licence Apache-2.0"}))
    assert own.provenance.endswith("), trained from a package, licence Apache-2.0")


def refuse(folder: Path, tensors: dict[str, Tensor], sentence: str) -> None:
    backbone = small()
    before = {key: tensor.clone() for key, tensor in backbone.state_dict().items()}
    with pytest.raises(UserError, match=sentence):
        load_weights(backbone, written(folder, tensors))
    assert all(torch.equal(tensor, before[key]) for key, tensor in backbone.state_dict().items())


def test_wrong_weights_are_named(tmp_path: Path) -> None:
    good = small().state_dict()
    refuse(tmp_path, {**good, "extra.bias": torch.zeros(1)}, r"it has, without a place in the backbone, extra\.bias;")
    shape = r"has, in other shapes, stem\.weight \(2, 2\) instead of \(16, 3, 3, 3\); check model\.backbone"
    refuse(tmp_path, {**good, "stem.weight": torch.zeros(2, 2)}, shape)
    del good["stem.weight"]
    refuse(tmp_path, good, r"does not hold the weights of this backbone: it misses stem\.weight;")
    refuse(tmp_path, {"a": torch.zeros(1)}, r"it misses norm\.bias, .* and \d+ more, and has, without")


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    torn = tmp_path / "torn.safetensors"
    torn.write_bytes(b"no tensors")
    os.mkfifo(tmp_path / "pipe")
    for path, sentence in (
        (tmp_path / "absent", r"absent is missing"),
        (tmp_path, r"is a folder, not a regular file"),
        (tmp_path / "pipe", r"is a named pipe"),
        (torn, r"is not a complete safetensors file"),
    ):
        with pytest.raises(UserError, match=sentence):
            load_weights(small(), path)
