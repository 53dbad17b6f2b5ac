"""Tables of what pseudo-labelling did, against numbers computed by hand."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
import yaml
from PIL import Image

from semco.errors import UserError
from semco.evaluation.pool_labels import write_pseudo_labels
from semco.experiment.paper.groups import score_groups
from semco.report.analysis.confused import most_confused, training_pictures
from semco.report.analysis.counts import add_counts, has_both_heads, read_class_counts
from semco.report.analysis.similarity import most_and_least_similar, nearest_similarity
from semco.run.folder import RunFolder


def write_classes(folder: Path, scale: float = 1.0, steps: tuple[int, ...] = (10, 20)) -> Path:
    """Two lines of one head with two classes and the unknown one."""
    counts = {"images": [4, 2, 1] * 2, "retained": [2, 2, 1, 0, 1, 1], "correct": [1, 2, 0, 0, 0, 0]}
    table = {
        "step": np.repeat(steps, 3),
        "head": ["one_hot"] * 6,
        "class_id": [0, 1, -1] * 2,
        **{name: [scale * value for value in values] for name, values in counts.items()},
        "correct_group": [scale * value for value in (2, 2, 0, 0, 1, 0)],
        "both": [0.0] * 6,
        "disagreement": [0.0] * 6,
    }
    folder.mkdir(exist_ok=True)
    pq.write_table(pa.table(table), folder / "classes.parquet")
    return folder


def test_curves_by_hand(tmp_path: Path) -> None:
    counts = read_class_counts(write_classes(tmp_path))
    assert counts is not None
    assert not has_both_heads(counts)
    assert counts.num_classes == 2
    assert counts.curve("one_hot", [0], "ratio") == ([10, 20], [0.5, 0.0])
    assert counts.curve("one_hot", [0], "accuracy") == ([10], [0.5])  # nothing is retained in the second line
    assert counts.curve("one_hot", [0, 1], "accuracy") == ([10, 20], [0.75, 0.0])
    assert counts.curve("one_hot", [1], "group_accuracy") == ([10, 20], [1.0, 1.0])
    assert counts.mean("one_hot", [0, 1], "ratio") == pytest.approx(5 / 12)
    assert counts.mean("one_hot", [0], "disagreement") == 0.0


def test_repeated_runs_are_added_where_both_have_a_line(tmp_path: Path) -> None:
    one = read_class_counts(write_classes(tmp_path / "a"))
    two = read_class_counts(write_classes(tmp_path / "b", 3.0, (10, 30)))
    assert one is not None
    assert two is not None
    total = add_counts([one, two])
    assert total.steps.tolist() == [10]
    assert total.values[0, 0, 0].tolist() == [16, 8, 4, 8, 0, 0]


def test_missing_and_damaged_tables(tmp_path: Path) -> None:
    assert read_class_counts(tmp_path) is None
    assert most_confused(tmp_path, [0, 1]) == []
    (tmp_path / "classes.parquet").write_bytes(b"nothing")
    with pytest.raises(UserError, match=r"classes.parquet cannot be read .* train the run again"):
        read_class_counts(tmp_path)


def test_most_and_least_similar_classes() -> None:
    """0 and 1 are 0.8 alike, 2 and 3 are 0.6 alike, 4 is alone."""
    rows = np.zeros((5, 6))
    rows[0, 0], rows[1, :2] = 1, (0.8, 0.6)
    rows[2, 2], rows[3, 2:4] = 2, (1.2, 1.6)  # lengths do not matter
    rows[4, 5] = 1
    similarity = nearest_similarity(rows)
    assert similarity == pytest.approx([0.8, 0.8, 0.6, 0.6, 0.0])
    chosen = most_and_least_similar(similarity, 2)
    assert (chosen.most, chosen.least) == ((0, 1), (4, 3))
    assert most_and_least_similar(similarity, 4).least == (4, 3)  # no class is in both


def test_most_confused_images(tmp_path: Path) -> None:
    columns = {
        "index": [5, 6, 7, 8, 9],
        "truth": [0, 0, 0, 1, 2],
        "seen": [10, 10, 4, 10, 10],
        "wrong_1": [1, 2, 1, -1, 0],
        "wrong_1_count": [3, 9, 2, 0, 5],
        "wrong_2": [2, 1, -1, -1, -1],
        "wrong_2_count": [1, 1, 0, 0, 0],
        "wrong_3": [-1] * 5,
        "wrong_3_count": [0] * 5,
    }
    pq.write_table(pa.table(columns), tmp_path / "images.parquet")
    found = most_confused(tmp_path, [0, 1], per_class=2)
    assert [(image.index, image.wrong) for image in found] == [(7, {1: 2}), (5, {1: 3})]  # class 2 is no look-alike
    assert found[0].confusion == 0.5


def test_agreement_of_groups_by_hand() -> None:
    """Ours has the pairs ab, ac, bc; published are ab, cd, with other spellings."""
    scores = score_groups([["a x", "b", "c"]], [["a_x", "B"], ["c", "d"]])
    assert (scores.precision, scores.recall, scores.f1) == (pytest.approx(1 / 3), 0.5, pytest.approx(0.4))
    assert (scores.found, scores.published) == (3, 2)
    assert score_groups([], [["a", "b"]]).precision is None


def make_run(folder: Path, data: dict[str, str], paths: list[str] | None, count: int) -> Path:
    folder.mkdir()
    (folder / "config.yaml").write_text(yaml.safe_dump({"data": data}))
    index, truth = np.arange(count), np.zeros(count, np.int64)
    write_pseudo_labels(RunFolder(folder).pseudo_labels_file, index, truth, {}, paths)
    return folder


def test_photos_are_read_one_by_one_and_missing_ones_left_out(tmp_path: Path) -> None:
    names = [b"red.png", b"caf\xe9.png", b"gone.png"]
    paths = [os.path.join(os.fsencode(tmp_path), name) for name in names]  # noqa: PTH118 (bytes)
    for path, colour in zip(paths[:2], ((255, 0, 0), (0, 0, 255)), strict=True):
        with open(path, "wb") as file:  # noqa: PTH123 (bytes)
            Image.new("RGB", (30, 20), colour).save(file, "png")
    run = make_run(tmp_path / "run", {"source": "nowhere"}, [os.fsdecode(path) for path in paths], 3)
    pictures = training_pictures(run, [2, 1, 0])
    assert pictures.keys() == {0, 1}
    assert pictures[1].shape == (3, 224, 224)
    assert pictures[1][:, 100, 100].tolist() == [0, 0, 255]
    assert pictures[0][:, 100, 100].tolist() == [255, 0, 0]


def test_arrays_come_from_the_data_set(tmp_path: Path) -> None:
    images = np.arange(3 * 4 * 4, dtype=np.uint8).reshape(3, 4, 4)
    np.savez(tmp_path / "d.npz", x_train=images, y_train=np.array([0, 1, 1]), class_names=np.array(["cat", "dog"]))
    run = make_run(tmp_path / "run", {"source": str(tmp_path / "d.npz")}, None, 3)
    pictures = training_pictures(run, [2])
    assert pictures.keys() == {2}
    assert torch.equal(pictures[2].squeeze(), torch.from_numpy(images[2]))
    assert training_pictures(run, []) == {}


def test_data_that_are_gone_give_no_pictures(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", {"source": str(tmp_path / "gone.npz")}, None, 3)
    assert training_pictures(run, [0, 1]) == {}
