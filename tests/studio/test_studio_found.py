"""What is there when a project begins: class folders become classes and labels, test/ is kept apart."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image

from semco.data.sources import list_source
from semco.studio.project import FOLDERS, Project
from semco.studio.training import Job


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Two class folders, one of them with a deeper folder; photos without a label; test photos of three classes."""
    root = tmp_path / "photos"
    for name in (
        "cat/1.jpg", "cat/more/2.jpg", "dog/3.jpg", "unlabeled/4.jpg", "unlabeled/5.jpg",
        "test/cat/6.jpg", "test/Dog/7.jpg", "test/cow/8.jpg", "test/9.jpg",
    ):  # fmt: skip
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (8, 8), "red").save(root / name)
    return root


def test_class_folders_become_classes_and_labels(photos: Path, tmp_path: Path) -> None:
    with Project(photos, tmp_path / "project") as project:
        assert project.found == {"seq": 1, "classes": 2, "labels": 3}
        assert dict(project.rows()) == {"cat/1.jpg": "cat", "cat/more/2.jpg": "cat", "dog/3.jpg": "dog"}
        assert [(each["kind"], each["count"]) for each in project.history()] == [("classes", 4)]
        project.label([project.photos.number("unlabeled/4.jpg") or 0], 2, "a", None)
        project.journal.undo("a", 1)  # one step takes back the classes and their labels
        assert (project.rows(), project.table.classes) == ([], ())
        project.journal.redo(1, "a")
        assert len(project.rows()) == 4
    with Project(photos, tmp_path / "project") as project:  # opened again: nothing is found twice
        assert (project.found, project.journal.seq, len(project.rows())) == (None, 4, 4)


def test_what_was_undone_stays_undone(photos: Path, tmp_path: Path) -> None:
    with Project(photos, tmp_path / "project") as project:
        project.journal.undo(FOLDERS)
    (tmp_path / "project/journal.jsonl").write_bytes(b"")  # the snapshot has a copy of both lines
    with Project(photos, tmp_path / "project") as project:
        assert (project.found, project.rows(), project.journal.seq) == (None, [], 2)


def test_classes_that_are_named_replace_the_folders(photos: Path, tmp_path: Path) -> None:
    with Project(photos, tmp_path / "project", ("animal", "plant")) as project:
        assert (project.found, list(project.table.names.values())) == (None, ["animal", "plant"])
    with Project(photos, tmp_path / "project") as project:
        assert project.labels() == {}


def test_test_photos_are_never_shown_and_never_learned_from(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[dict[str, str]] = []
    monkeypatch.setattr(Job, "start", lambda _job, values: started.append(values))
    with Project(photos, tmp_path / "project") as project:
        shown = {"cat/1.jpg", "cat/more/2.jpg", "dog/3.jpg", "test/9.jpg", "unlabeled/4.jpg", "unlabeled/5.jpg"}
        assert set(project.photos.names) == shown
        project.change_classes({"action": "rename", "class": 1, "name": "kitten"}, "a")  # once called like its folder
        test = {"test/Dog/7.jpg": "dog", "test/cat/6.jpg": "kitten", "test/cow/8.jpg": None}
        assert project.test_classes() == test
        project.train(1, "scratch")
    config = project.training._configure(tmp_path / "project/runs/round-1.labels.csv", {}, "scratch")
    listing = list_source(config.data)
    assert listing is not None
    assert {str(Path(name).relative_to(photos)) for name in listing.train.names} == shown
    names = [listing.class_names[label] for label in listing.test.labels]
    tested = {str(Path(name).relative_to(photos)): label for name, label in zip(listing.test.names, names, strict=True)}
    assert tested == {photo: label for photo, label in test.items() if label}


def test_folders_that_cannot_be_classes_are_reported(photos: Path, tmp_path: Path) -> None:
    (photos / "dog").rename(photos / "CAT")
    with Project(photos, tmp_path / "project") as project:
        assert project.found is None
        assert "not taken as classes: there is a class" in project.problems()[0]


def test_a_folder_without_class_folders_has_no_labels(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    Image.new("RGB", (8, 8)).save(tmp_path / "photos/a.jpg")
    with Project(tmp_path / "photos", tmp_path / "project") as project:
        assert (project.found, project.journal.seq, len(project.photos.test)) == (None, 0, 0)
