"""Today's code reads what earlier formats wrote, and gives the answers of then (docs/versions.md)."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from semco.experiment import resume
from semco.report import write_report
from tests.formats.make import answers

FOLDERS = sorted(path for path in Path(__file__).parent.iterdir() if path.name.isdigit())


@pytest.fixture(params=FOLDERS, ids=lambda folder: f"format {folder.name}")
def kept(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of a kept folder, in which the runs find their photos."""
    folder = tmp_path / "kept"
    shutil.copytree(request.param, folder)
    for file in folder.glob("*/*.yaml"):
        file.write_text(file.read_text(encoding="utf-8").replace("/kept/", f"{folder}/"), encoding="utf-8")
    monkeypatch.chdir(folder)
    return folder


def test_there_is_a_folder_of_the_present_format() -> None:
    assert FOLDERS


def test_models_splits_stores_and_journals_say_what_they_said(kept: Path) -> None:
    found, expected = json.loads(json.dumps(answers())), json.loads((kept / "answers.json").read_text(encoding="utf-8"))
    confidences = [[each.pop() for each in some.pop("predictions")] for some in (found, expected)]
    assert found == expected
    assert confidences[0] == pytest.approx(confidences[1], abs=2e-3)


@pytest.mark.usefixtures("plain_figures")
def test_a_finished_run_has_a_report(kept: Path) -> None:
    page = write_report([kept / "finished"], kept / "report.html").read_text(encoding="utf-8")
    assert "SemCo+" in page


@pytest.mark.usefixtures("no_page")
def test_a_stopped_run_is_resumed(kept: Path) -> None:
    assert resume(kept / "stopped").steps == 6
