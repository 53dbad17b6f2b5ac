"""The store of the paper's build that comes with the package."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import semco.labels
from semco.cli.main import app
from semco.config import LabelsConfig
from semco.data.class_names import CLASS_NAMES
from semco.labels import label_source, sentences
from semco.labels.build import PRESETS
from semco.labels.sources import StoreSource
from semco.labels.store import plain_store

FOLDER = Path(semco.labels.__file__).parent / "plain"


def test_it_is_the_papers_build_without_looks() -> None:
    header, preset = plain_store().header, PRESETS["paper"]
    assert "looks" not in header
    assert header["recipe"] == {"relations": preset.relations, "max_words": None, **asdict(preset.settings)}


def test_it_is_small_and_says_where_it_comes_from() -> None:
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) <= 15e6
    assert "CC BY-SA 4.0" in (FOLDER / "PROVENANCE.md").read_text()
    assert "Attribution-ShareAlike 4.0" in (FOLDER / "LICENSE").read_text()
    assert f"{plain_store().size:,} terms" in " ".join((FOLDER / "PROVENANCE.md").read_text().split())


@pytest.mark.parametrize("data", ["cifar10", "cifar100", "mini-imagenet", "domainnet-real"])
def test_it_knows_the_class_names_of_the_paper(data: str) -> None:
    found = label_source(LabelsConfig(source="plain")).vectors(CLASS_NAMES[data])
    assert "own vector" not in found.routes
    assert found.source == "plain store (128-d, 99,000 terms)"


def test_it_does_not_depend_on_what_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    def vectors() -> np.ndarray:
        return label_source(LabelsConfig(source="plain")).vectors(["dog", "Hund", "zzyzx"]).matrix

    before = vectors()
    monkeypatch.setattr(sentences, "is_installed", lambda: True)
    monkeypatch.setattr(sentences, "places", lambda _: pytest.fail("the sentence encoder was asked"))
    np.testing.assert_array_equal(vectors(), before)


def test_groups_takes_it_by_name(tmp_path: Path) -> None:
    (tmp_path / "names.txt").write_text("oak tree\npine tree\nrocket\n")
    options = ["--vectors", "plain", "--eps", "0.3", "--json"]
    result = CliRunner().invoke(app, ["labels", "groups", str(tmp_path / "names.txt"), *options])
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["groups"] == [["oak tree", "pine tree"], ["rocket"]]


def test_lookup_takes_it_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    used: list[str] = []
    original = StoreSource.neighbours
    monkeypatch.setattr(
        StoreSource, "neighbours", lambda self, *args: (used.append(self.title), original(self, *args))[1]
    )
    assert CliRunner().invoke(app, ["labels", "lookup", "dog", "--vectors", "plain"]).exit_code == 0
    assert used == ["plain store"]
