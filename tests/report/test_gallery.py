"""scripts/gallery.py: a page of runs, made from their folders."""

from __future__ import annotations

import shlex
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest

from semco.config import configure
from semco.experiment import train
from tests.conftest import load_script

gallery = load_script("gallery")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("gallery") / "run"
    values = {
        "data": {"source": "fashion-mini", "labels_per_class": 2, "image_size": 8},
        "training": {"steps": 2, "batch_size": 8},
    }
    train(configure("fixmatch", options={**values, "model": {"backbone": "tiny"}}), folder)
    return folder


def test_a_part_has_the_result_the_command_and_a_picture(run: Path, tmp_path: Path) -> None:
    gallery.main([str(run), "--out", str(tmp_path / "gallery.md")])
    page = (tmp_path / "gallery.md").read_text(encoding="utf-8")
    assert "## FixMatch on fashion-mini" in page
    assert "20 labels, 2 training steps: right for" in page
    assert "95 % interval" in page
    (picture,) = (tmp_path / "gallery").glob("*.svg")
    assert f"(gallery/{picture.name})" in page
    assert "var(--ink-2)" in ElementTree.tostring(ElementTree.parse(picture).getroot(), encoding="unicode")


def test_the_command_asks_for_the_same_run(run: Path) -> None:
    request = gallery.RunFolder.open(run).request()
    words = shlex.split(gallery.command(request))
    assert words[:3] == ["semco", "train", "fashion-mini"]
    settings = [setting for word, setting in pairwise(words) if word == "--set"]
    assert "training.steps=2" in settings
    recipe = words[words.index("--recipe") + 1]
    assert configure(recipe, options={"data": {"source": words[2]}}, settings=settings) == request


def test_a_run_without_test_images_is_refused(run: Path, tmp_path: Path) -> None:
    unfinished = tmp_path / "run"
    unfinished.mkdir()
    for name in ("config.yaml", "result.json", "labels.json"):
        (unfinished / name).write_bytes((run / name).read_bytes())
    with pytest.raises(SystemExit, match="no confusion matrix"):
        gallery.main([str(unfinished), "--out", str(tmp_path / "gallery.md")])
