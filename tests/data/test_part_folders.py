"""Images in test/CLASS and val/CLASS keep their part beside a table of labels, unless the table lists them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from PIL import Image
from typer.testing import CliRunner

from semco.cli.main import app
from semco.config import DataConfig
from semco.data.listing import Listing, Part
from semco.data.sources.layouts import list_images
from semco.data.sources.part_folders import PartFolders

FILES = ("cat/1.png", "dog/2.png", "test/cat/3.png", "test/dog/deep/4.png", "unlabeled/5.png", "val/dog/6.png")
LABELS = "path,label\ncat/1.png,cat\ndog/2.png,dog\n"


def save(root: Path, *names: str) -> Path:
    for number, name in enumerate(names):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (8, 8), (10 * number, 0, 0)).save(root / name)
    return root


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    return save(tmp_path / "photos", *FILES)


def listed(root: Path, table: str, source: Path | None = None) -> Listing:
    file = root.parent / "labels.csv"
    file.write_text(table)
    return list_images(source or root, DataConfig(source=str(root), labels_from=file))


def of(listing: Listing, part: Part, root: Path) -> dict[str, str | None]:
    """Return the class of each image of a part by its path, with a star if it is held out for validation."""
    names = [Path(name).relative_to(root).as_posix() for name in part.names]
    assert len(set(names)) == len(names)
    held_out = ["*" if each else "" for each in part.held_out]
    classes = [*listing.class_names, None]
    return {f"{name}{star}": classes[i] for name, star, i in zip(names, held_out, part.labels, strict=True)}


def test_they_stay_what_their_folders_say(photos: Path) -> None:
    listing = listed(photos, LABELS)
    assert of(listing, listing.test, photos) == {"test/cat/3.png": "cat", "test/dog/deep/4.png": "dog"}
    train = {"cat/1.png": "cat", "dog/2.png": "dog", "unlabeled/5.png": None, "val/dog/6.png*": "dog"}
    assert of(listing, listing.train, photos) == train
    assert listing.notes == (
        "images in test/CLASS or val/CLASS that the table does not list: 2 for testing only, 1 for validation only",
        "2 labels from labels.csv; 1 images are unlabelled",
    )


def test_the_check_of_the_data_counts_the_same(photos: Path) -> None:
    (photos.parent / "labels.csv").write_text(LABELS)
    command = ["data", "check", str(photos), "--labels-from", str(photos.parent / "labels.csv"), "--json"]
    counts = json.loads(CliRunner().invoke(app, command).stdout.strip().splitlines()[-1])["classes"]
    assert counts["dog"] == {"train": 1, "validation": 1, "test": 1, "unlabelled": 0}
    assert counts[""] == {"train": 0, "validation": 0, "test": 0, "unlabelled": 1}


def test_rows_with_a_label_or_a_split_decide(photos: Path) -> None:
    rows = "cat/1.png,cat,\ndog/2.png,dog,test\ntest/cat/3.png,dog,\ntest/dog/deep/4.png,,\nval/dog/6.png,,train\n"
    listing = listed(photos, f"path,label,split\n{rows}")
    assert of(listing, listing.test, photos) == {"dog/2.png": "dog", "test/dog/deep/4.png": "dog"}
    train = {"cat/1.png": "cat", "test/cat/3.png": "dog", "unlabeled/5.png": None, "val/dog/6.png": None}
    assert of(listing, listing.train, photos) == train


def test_folders_without_a_class_of_the_table_are_left_out(photos: Path) -> None:
    save(photos, "test/elk/7.png", "test/elk/8.png", "val/elk/9.png", "test/10.png")
    listing = listed(photos, LABELS)
    assert listing.notes[1] == "3 images are left out, because no label names the class of test/elk, val/elk"
    assert not any("elk" in name for part in (listing.train, listing.test) for name in part.names)
    assert of(listing, listing.train, photos)["test/10.png"] is None  # in no folder of a class


def test_names_are_compared_as_in_class_folders(tmp_path: Path) -> None:
    root = save(
        tmp_path / "a", "1.png", "2.png", "3.png", "Test/pink-lady/4.png", "test/n01532829/5.png", "test/other/6.png"
    )
    listing = listed(root, "path,label\n1.png,Pink Lady\n2.png,house finch\n3.png,none of these\n")
    found = {"Test/pink-lady/4.png": "Pink Lady", "test/n01532829/5.png": "house finch"}
    assert of(listing, listing.test, root) == {**found, "test/other/6.png": "none of these"}


def test_two_classes_that_differ_in_their_spelling(tmp_path: Path) -> None:
    root = save(tmp_path / "a", "1.png", "2.png", "test/cat/3.png", "test/CAT/4.png")
    listing = listed(root, "path,label\n1.png,cat\n2.png,Cat\n")
    assert of(listing, listing.test, root) == {"test/cat/3.png": "cat"}


def test_a_class_may_be_called_valid(tmp_path: Path) -> None:
    root = save(tmp_path / "a", "valid/x/1.png", "valid/x/2.png", "invalid/3.png")
    listing = listed(root, "path,label\nvalid/x/1.png,valid\ninvalid/3.png,invalid\n")
    assert of(listing, listing.train, root) == {
        "valid/x/1.png": "valid",
        "valid/x/2.png": None,
        "invalid/3.png": "invalid",
    }


def test_folders_inside_train_and_inside_a_folder_that_holds_nothing_else(tmp_path: Path) -> None:
    files = [
        f"inner/{name}" for name in ("train/cat/1.png", "train/dog/2.png", "test/cat/3.png", "train/test/dog/4.png")
    ]
    root = save(tmp_path / "a", *files)
    listing = listed(root, "path,label\ninner/train/cat/1.png,cat\ninner/train/dog/2.png,dog\n")
    assert of(listing, listing.test, root) == {"inner/test/cat/3.png": "cat", "inner/train/test/dog/4.png": "dog"}


@pytest.mark.parametrize("source", ["photos", ".", "photos/../photos", "../{parent}/photos"])
def test_every_image_once_however_its_folder_is_called(
    photos: Path, source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(photos if source == "." else photos.parent)
    rows = f"path,label\n{photos}/cat/1.png,cat\ndog/2.png,dog\n"
    listing = listed(photos, rows, Path(source.format(parent=photos.parent.name)))
    assert of(listing, listing.train, photos) == {
        "cat/1.png": "cat", "dog/2.png": "dog", "unlabeled/5.png": None, "val/dog/6.png*": "dog"
    }  # fmt: skip
    assert len(listing.test) == 2


@pytest.mark.parametrize(
    ("labels", "expected"), [(["other", "none of these"], "other"), (["Other", "none of these"], None)]
)
def test_a_class_may_be_spelled_in_several_ways(labels: list[str], expected: str | None, tmp_path: Path) -> None:
    """The folder has the class of its own spelling; of two other spellings of one name it is none."""
    save(tmp_path, "test/other/1.png")
    folder = PartFolders(tmp_path, [*labels, "cat"]).find(str(tmp_path / "test/other/1.png"))
    assert folder is not None
    assert folder.class_name == expected
