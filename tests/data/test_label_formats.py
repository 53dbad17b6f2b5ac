"""Labels of other tools, in and out."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from typer.testing import CliRunner

from semco.cli.main import app
from semco.config import DataConfig
from semco.data.sources.label_formats import FORMATS, Finder, coco, fiftyone, label_studio, labels_of, read_labels
from semco.data.sources.layouts import list_images
from semco.errors import UserError

LABELS = [("a/1.jpg", "cat"), ("b/2.png", None), ("3.jpg", "dog")]


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    root = tmp_path / "photos"
    for name, _ in [*LABELS, ("c/4.jpg", None)]:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (8, 8)).save(root / name)
    return root


def written(path: Path, content: Any) -> Path:
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


@pytest.mark.parametrize("name", FORMATS)
def test_round_trip(name: str, photos: Path, tmp_path: Path) -> None:
    """What is written for a tool is read from its file as the labels that they were."""
    source = tmp_path / "labels.csv"
    source.write_text(FORMATS["csv"](LABELS), encoding="utf-8")
    out = tmp_path / f"out{'.csv' if name == 'csv' else '.json'}"
    command = ["data", "convert", str(photos), "--labels-from", str(source), "--to", name, "--out", str(out)]
    assert "4 images, 2 labels" in CliRunner().invoke(app, command).output
    listing = list_images(photos, DataConfig(source=str(photos), labels_from=out))
    assert dict(labels_of(listing, photos)) == {**dict(LABELS), "c/4.jpg": None}


def test_what_is_written() -> None:
    assert coco(LABELS)["annotations"] == [
        {"id": 1, "image_id": 1, "category_id": 1},
        {"id": 2, "image_id": 3, "category_id": 2},
    ]
    assert fiftyone(LABELS) == {"classes": ["cat", "dog"], "labels": {"a/1": 0, "b/2": None, "3": 1}}
    assert label_studio(LABELS)[1] == {"data": {"image": "/data/local-files/?d=b/2.png"}, "annotations": []}
    with pytest.raises(UserError, match="differ only in their ending"):
        fiftyone([("1.jpg", "a"), ("1.png", "a")])


def annotated(image: str, *choices: str, cancelled: bool = False) -> dict[str, Any]:
    result = [{"type": "choices", "value": {"choices": [choice]}} for choice in choices]
    return {"data": {"image": image}, "annotations": [{"result": result, "was_cancelled": cancelled}]}


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ([annotated("/data/upload/1/0a1b2c3d-1.jpg", "cat")], [("data/upload/1/0a1b2c3d-1.jpg", "cat")]),
        ([annotated("/data/local-files/?d=a/1.jpg", "cat", "cat")], [("a/1.jpg", "cat")]),
        ([annotated("1.jpg", "cat", cancelled=True)], [("1.jpg", None)]),
        ([{"image": "s3://bucket/a/1.jpg", "choice": "cat", "id": 3, "annotator": 1}], [("a/1.jpg", "cat")]),
        ({"labels": {"1": "cat"}}, [("1", "cat")]),
    ],
)
def test_what_is_read(content: Any, expected: Sequence[tuple[str, str | None]], tmp_path: Path) -> None:
    assert read_labels(written(tmp_path / "x.json", content)) == expected


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([annotated("1.jpg", "cat", "dog")], "has the classes cat, dog; keep one"),
        ([{"data": {"text": "x"}}], "task 1: .* has no image"),
        ({"labels": {"1": 7}, "classes": ["cat"]}, "the label 7 of '?1'? is not one of its classes"),
        ({"images": [{"id": 1}], "categories": []}, "no labels in a known format"),
        ({"images": [{"id": 1, "file_name": "1.jpg"}], "categories": [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}],
          "annotations": [{"image_id": 1, "category_id": 1}, {"image_id": 1, "category_id": 2}]}, "objects of a, b"),
        ([1, 2], "no labels in a known format"),
        ({"a": 1}, "no labels in a known format"),
        ([{"data": {"image": "1.jpg"}, "annotations": [3]}], "no labels in a known format"),
    ],
)  # fmt: skip
def test_what_is_refused(content: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=message):
        read_labels(written(tmp_path / "x.json", content))


def test_images_are_found_by_the_names_that_tools_give_them(tmp_path: Path) -> None:
    finder = Finder(tmp_path, [str(tmp_path / name) for name in ("a/1.jpg", "b/2.jpg", "c/2.jpg")])
    assert finder.find("data/upload/1/0a1b2c3d-1.jpg") == "a/1.jpg"
    assert finder.find("bucket/b/2.jpg") == "b/2.jpg"
    assert finder.find("a/1") == "a/1.jpg"
    assert finder.find("missing.jpg") == "missing.jpg"
    with pytest.raises(UserError, match=r"may be b/2.jpg or c/2.jpg"):
        finder.find("2")


def test_an_existing_file_is_kept(photos: Path, tmp_path: Path) -> None:
    out = tmp_path / "there.csv"
    out.write_text("mine")
    done = CliRunner().invoke(app, ["data", "convert", str(photos), "--out", str(out)])
    assert isinstance(done.exception, UserError)
    assert out.read_text() == "mine"


def test_the_table_of_label_studio(photos: Path, tmp_path: Path) -> None:
    table = tmp_path / "project-1.csv"
    table.write_text("annotator,choice,id,image\n1,cat,7,/data/upload/1/0a1b2c3d-1.jpg\n1,dog,8,/data/upload/1/3.jpg\n")
    listing = list_images(photos, DataConfig(source=str(photos), labels_from=table))
    assert {path: label for path, label in labels_of(listing, photos) if label} == {"a/1.jpg": "cat", "3.jpg": "dog"}
