"""Predicting image files: decoding, finding files in folders, skipping unreadable files, and the CSV."""

from __future__ import annotations

import csv
import io
import json
import os
import sys
import tarfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from PIL import Image

from semco.errors import SemcoWarning, UserError
from semco.evaluation.thresholds import Threshold
from semco.files import readable_name
from semco.predict import predictions
from semco.predict.engine import Scores, TorchEngine
from semco.predict.images import Output, predict_images, predict_into
from semco.predict.photos import find_photos
from semco.predict.predictions import Prediction, Rows, open_table
from semco.predict.predictor import Predictor
from tests.evaluation.brightness import brightness_model, save_untrained


@pytest.fixture
def run(tmp_path: Path) -> Path:
    save_untrained(tmp_path / "run" / "model")
    return tmp_path / "run"


@pytest.fixture
def _brightness(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace the model by one with known predictions."""
    model = brightness_model()
    monkeypatch.setattr("semco.predict.engine.load_model", lambda *_: model)
    monkeypatch.setattr("semco.predict.engine.find_model_folder", lambda folder: folder / "model")


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    folder = tmp_path / "photos"
    (folder / "more").mkdir(parents=True)
    Image.new("RGB", (20, 12), (255, 255, 255)).save(folder / "white.png")
    Image.new("L", (12, 20), 128).save(folder / "more" / "grey.JPG")
    (folder / "more" / "notes.txt").write_text("not an image")
    return folder


@pytest.mark.usefixtures("_brightness")
def test_predictions_with_runner_up(photos: Path, tmp_path: Path) -> None:
    seen: list[tuple[str, int, int]] = []
    found = predict_images(tmp_path, [photos], report=lambda *progress: seen.append(progress))
    grey, white = found.rows
    assert (Path(white.path).name, white.label, white.runner_up) == ("white.png", "bright", "middle")
    # White is 2 after normalisation: distances 4, 2, 0, logits -8, -4, 0.
    weights = np.exp([-8.0, -4.0, 0.0])
    assert white.confidence == pytest.approx(weights[2] / weights.sum(), rel=1e-5)
    assert white.runner_up_confidence == pytest.approx(weights[1] / weights.sum(), rel=1e-5)
    assert (Path(grey.path).name, grey.label) == ("grey.JPG", "middle")
    assert seen == [("predicting", 2, 2)]


@pytest.mark.usefixtures("_brightness")
def test_the_chosen_head_predicts(photos: Path, tmp_path: Path) -> None:
    (row,) = predict_images(tmp_path, [photos / "white.png"], head="semantic").rows
    assert row.label == "dark"  # the embedding of this model points away from its logits


@pytest.mark.usefixtures("_brightness")
def test_unreadable_images_are_skipped_and_named(photos: Path, tmp_path: Path) -> None:
    whole = (photos / "white.png").read_bytes()
    (photos / "cut.png").write_bytes(whole[: len(whole) // 2])
    found = predict_images(tmp_path, [photos])
    assert len(found.rows) == 2
    (skipped,) = found.skipped
    assert "cut.png" in skipped


@pytest.mark.usefixtures("_brightness")
def test_the_reason_for_skipping_an_image_does_not_repeat_its_path(photos: Path, tmp_path: Path) -> None:
    os.mkfifo(photos / "pipe.png")
    (skipped,) = predict_images(tmp_path, [photos]).skipped
    assert skipped.startswith(f"{photos / 'pipe.png'} (is a named pipe")
    assert skipped.count("pipe.png") == 1


@pytest.mark.usefixtures("_brightness")
def test_an_error_if_no_image_can_be_read(photos: Path, tmp_path: Path) -> None:
    (photos / "more" / "notes.txt").rename(photos / "more" / "notes")
    with pytest.raises(UserError, match=r"none of the 1 images can be read.*notes"):
        predict_images(tmp_path, [photos / "more" / "notes"])


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("size", [(8, 8), (8, 12)])
def test_images_are_converted_to_the_shape_of_the_model(
    photos: Path, tmp_path: Path, channels: int, size: tuple[int, int]
) -> None:
    save_untrained(tmp_path / "m", channels, size)
    found = predict_images(tmp_path / "m", [photos])
    assert len(found.rows) == 2
    for row in found.rows:
        assert row.confidence >= row.runner_up_confidence >= 0
        assert row.label != row.runner_up


def test_a_run_folder_or_its_model_folder(run: Path, photos: Path) -> None:
    assert predict_images(run, [photos]) == predict_images(run / "model", [photos])


def test_a_missing_run_is_named(photos: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no run folder .*gone"):
        predict_images(tmp_path / "gone", [photos])


def test_photos_are_found_in_order_and_once(photos: Path, tmp_path: Path) -> None:
    (tmp_path / "list.txt").write_text("photos/white.png\n\nphotos/more/grey.JPG\n")
    (tmp_path / "table.csv").write_text("id,path\n1,photos/more/grey.JPG\n2,photos/gone.png\n")

    def found(*arguments: object) -> list[str]:
        return [entry.name for entry in find_photos(list(map(str, arguments)), io.StringIO("one.png\r\ntwo.png"))]

    grey, white = str(photos / "more" / "grey.JPG"), str(photos / "white.png")
    assert found(photos) == [grey, white]
    assert found(white, photos) == [white, grey]
    assert found(photos / "more", photos) == [grey, white]
    assert found(f"@{tmp_path / 'list.txt'}") == [white, grey]
    assert found(f"@{tmp_path / 'table.csv'}") == [grey, str(photos / "gone.png")]
    (photos / "@white.png").touch()
    assert found(photos / "@white.png") == [str(photos / "@white.png")]
    (photos / "@white.png").unlink()
    assert found("-") == ["one.png", "two.png"]


def test_a_list_is_read_only_if_asked(tmp_path: Path) -> None:
    """As for ``odd/*``: a text file among photos is a file that cannot be read."""
    (tmp_path / "notes.txt").write_text("photos/white.png\n")
    with pytest.warns(SemcoWarning, match=r"notes\.txt is no photo; @.*notes\.txt would be a list of photos\."):
        (entry,) = find_photos([tmp_path / "notes.txt"])
    assert entry.name == str(tmp_path / "notes.txt")


def test_missing_images_and_empty_folders_are_named(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "table.csv").write_text("name,label\n1,2\n")
    with pytest.raises(UserError, match=r"no image, folder or list .*gone\.png"):
        list(find_photos([tmp_path / "gone.png"]))
    with pytest.raises(UserError, match="holds no image files"):
        list(find_photos([tmp_path / "empty"]))
    with pytest.raises(UserError, match=r"table\.csv has no column path or .*its columns are name, label"):
        list(find_photos([f"@{tmp_path / 'table.csv'}"]))
    with pytest.raises(UserError, match=r"there is no list gone\.txt"):
        list(find_photos(["@gone.txt"]))
    (tmp_path / "made before.csv").touch()
    with pytest.raises(UserError, match=r"no image, folder or list gone\.png"):  # the photos come before the table
        predict_into(Output(tmp_path / "made before.csv"), bright(), ["gone.png"])
    with pytest.raises(UserError, match="no images to predict"):
        predict_into(Output(tmp_path / "out.csv"), bright(), [])
    assert not (tmp_path / "out.csv").exists()


def bright() -> Predictor:
    return Predictor(TorchEngine(brightness_model()))


def read(file: Path) -> list[dict[str, Any]]:
    if file.suffix == ".parquet":
        return pq.read_table(file).to_pylist()
    if file.suffix == ".jsonl":
        return [json.loads(line) for line in file.read_text().splitlines()]
    with file.open(encoding="utf-8", errors="surrogateescape", newline="") as stream:
        return list(csv.DictReader(stream))


def test_a_parquet_file_has_few_large_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches of 2 of 7 rows, in groups of at least 4: 4 and 3."""
    monkeypatch.setattr(predictions, "ROWS_OF_GROUP", 4)
    about = bright().about
    with open_table(tmp_path / "out.parquet", "parquet", Rows(about), sys.stdout) as table:
        for names in ("ab", "cd", "ef", "g"):
            table.write([Prediction(name, "dark", 0.5) for name in names])
    found = pq.ParquetFile(tmp_path / "out.parquet")
    assert [found.metadata.row_group(i).num_rows for i in range(found.num_row_groups)] == [4, 3]
    assert "".join(found.read()["path"].to_pylist()) == "abcdefg"


@pytest.mark.parametrize("name", ["out.csv", "out.jsonl", "out.parquet"])
def test_tables_of_predictions(photos: Path, tmp_path: Path, name: str) -> None:
    odd = os.fsdecode(b"caf\xe9, 1.png")  # a name that is not valid UTF-8
    (photos / "white.png").rename(photos / odd)
    (photos / "cut.png").write_bytes(b"\x89PNG")
    file = tmp_path / "deep" / name
    summary = predict_into(Output(file, top=3, least=0.97), bright(), [photos])
    assert (summary.predicted, summary.unreadable) == (2, 1)
    white, cut, grey = read(file)
    assert list(white) == [
        "path", "label", "confidence", "runner_up", "runner_up_confidence", "top_3", "top_3_confidence", "group",
        "one_hot", "one_hot_confidence", "semantic", "semantic_confidence", "error", "sure",
    ]  # fmt: skip
    assert white["path"] == (readable_name(str(photos / odd)) if name == "out.parquet" else str(photos / odd))
    assert (white["label"], white["runner_up"], white["top_3"]) == ("bright", "middle", "dark")
    assert (white["group"], white["one_hot"], white["semantic"]) == ("middle + bright", "bright", "dark")
    assert (cut["label"], grey["label"]) == ("" if name == "out.csv" else None, "middle")
    assert cut["error"]
    weights = np.exp([-8.0, -4.0, 0.0]) / np.exp([-8.0, -4.0, 0.0]).sum()
    assert float(white["confidence"]) == pytest.approx(weights[2], rel=1e-5)
    assert float(white["top_3_confidence"]) == pytest.approx(weights[0], rel=1e-5)
    # Grey is almost 0 after normalisation, so the two other classes have exp(-4) each.
    assert [str(each["sure"]) for each in (white, grey)] == ["True", "False"]
    assert [each.name for each in file.parent.iterdir()] == [name]


def test_photos_in_a_tar_file(photos: Path, tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "photos.tar", "w") as archive:
        for name in ("white.png", "more/grey.JPG", "more/notes.txt"):
            archive.add(photos / name, name)
    predict_into(Output(tmp_path / "tar.csv"), bright(), [tmp_path / "photos.tar"])
    found = {Path(row["path"]).name: row["label"] for row in read(tmp_path / "tar.csv")}
    assert found == {"white.png": "bright", "grey.JPG": "middle"}


def test_nothing_is_overwritten_unless_forced(photos: Path, tmp_path: Path) -> None:
    file = tmp_path / "out.csv"
    file.write_text("mine")
    with pytest.raises(UserError, match=r"out\.csv exists; choose another name"):
        predict_into(Output(file), bright(), [photos])
    assert file.read_text() == "mine"
    predict_into(Output(file, force=True), bright(), [photos])
    assert len(read(file)) == 2


def test_standard_output(photos: Path, capsys: pytest.CaptureFixture[str]) -> None:
    predict_into(Output(None), bright(), [photos])
    assert [row["label"] for row in csv.DictReader(io.StringIO(capsys.readouterr().out))] == ["middle", "bright"]
    predict_into(Output(None, "jsonl"), bright(), ["-"], standard_input=io.StringIO(f"{photos}/white.png\n"))
    assert json.loads(capsys.readouterr().out)["label"] == "bright"


@pytest.mark.parametrize(
    ("output", "sentence"),
    [
        (Output(None, "parquet"), "Parquet cannot be written to standard output"),
        (Output(Path("out.xlsx")), "written as csv, jsonl, parquet, not as 'xlsx'"),
        (Output(None, top=0), "at least 1, not 0"),
        (Output(None, least=1.5), "from 0 to 1, not 1.5"),
        (Output(None, sort_into=Path("sorted")), "give the lowest one that counts as sure"),
    ],
)
def test_outputs_that_cannot_be_written(output: Output, sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        output.check()


def test_photos_are_sorted_by_confidence(photos: Path, tmp_path: Path) -> None:
    (photos / "other").mkdir()
    (photos / "other" / "white.png").write_bytes((photos / "white.png").read_bytes())
    (photos / "cut.png").write_bytes(b"\x89PNG")
    output = Output(tmp_path / "out.csv", least=0.97, sort_into=tmp_path / "sorted")
    predict_into(output, bright(), [photos])
    copies = sorted(str(path.relative_to(tmp_path / "sorted")) for path in (tmp_path / "sorted").rglob("*.*"))
    assert copies == ["sure/bright/white-2.png", "sure/bright/white.png", "unsure/middle/grey.JPG"]
    assert (tmp_path / "sorted/sure/bright/white.png").read_bytes() == (photos / "white.png").read_bytes()
    with pytest.raises(UserError, match="sorted exists"):
        predict_into(replace(output, file=tmp_path / "new.csv"), bright(), [photos])


@pytest.mark.parametrize("label", ["../../x", "..", "/etc", "a\\..\\b", ".hidden", "\udcff"])
def test_photos_are_sorted_inside_the_folder(photos: Path, tmp_path: Path, label: str) -> None:
    """A model of a stranger chooses the names of its classes."""
    engine = TorchEngine(brightness_model())
    engine.about = replace(engine.about, class_names=("dark", "middle", label))
    out = tmp_path / "out"
    out.mkdir()
    before = set(tmp_path.rglob("*")) | {out / "t.csv", out / "sorted"}
    predict_into(Output(out / "t.csv", least=0.1, sort_into=out / "sorted"), Predictor(engine), [photos])
    assert all((out / "sorted") in path.parents for path in set(tmp_path.rglob("*")) - before)
    assert len(list((out / "sorted" / "sure").glob("*/white.png"))) == 1


def test_a_parquet_file_with_a_name_that_is_not_utf8(photos: Path, tmp_path: Path) -> None:
    predict_into(Output(tmp_path / "t\udcff.parquet"), bright(), [photos])
    with (tmp_path / "t\udcff.parquet").open("rb") as stream:
        assert len(pq.read_table(stream)) == 2


def predictor_with_familiarity(familiarity: float) -> Predictor:
    """A model that finds every photo so familiar, and answers "none of these" below 0.4."""
    engine = TorchEngine(brightness_model())
    engine.about = replace(engine.about, thresholds=(Threshold(0.05, 0.4),))
    scores = engine._score

    def score(images: Any) -> Scores:
        return replace(scores(images), familiarity=np.full(len(images), familiarity, np.float32))

    engine._score = score  # type: ignore[method-assign]
    return Predictor(engine, none_of_these=0.05)


@pytest.mark.parametrize(("familiarity", "is_none"), [(0.375, True), (0.5, False)])
def test_photos_of_no_class(photos: Path, tmp_path: Path, familiarity: float, is_none: bool) -> None:
    (photos / "cut.png").write_bytes(b"\x89PNG")
    predictor = predictor_with_familiarity(familiarity)
    output = Output(tmp_path / "out.jsonl", least=0.1, sort_into=tmp_path / "sorted")
    summary = predict_into(output, predictor, [photos])
    assert (summary.predicted, summary.none_of_these, summary.unreadable) == (2, 2 if is_none else 0, 1)
    cut, _, white = map(json.loads, (tmp_path / "out.jsonl").read_text().splitlines())
    assert cut["none_of_these"] is None
    assert white["none_of_these"] is is_none
    if is_none:
        assert (white["label"], white["confidence"], white["sure"]) == ("none of these", None, None)
        assert (white["runner_up"], white["group"]) == ("bright", "none of these")
        assert white["runner_up_confidence"] == pytest.approx(0.98, abs=0.02)
        assert (tmp_path / "sorted" / "unsure" / "none of these" / "white.png").exists()
    else:
        assert white["label"] == "bright"


def test_a_model_without_thresholds_cannot_answer_none_of_these() -> None:
    with pytest.raises(UserError, match="cannot answer 'none of these'"):
        Predictor(TorchEngine(brightness_model()), none_of_these=0.05)
