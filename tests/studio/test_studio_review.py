"""Answers of a round: which photos come first, what is counted, and the table they are read from."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from semco.errors import UserError
from semco.evaluation.pool_labels import write_pseudo_labels
from semco.run.folder import RunFolder
from semco.studio.photos import Photos
from semco.studio.review import Answers, check, read_answers, summarise
from semco.studio.training import curves
from semco.studio.views import Query, choose, with_answers
from semco.types import PseudoLabels

NAMES = ["a.jpg", "b.jpg", "c.jpg", "d.jpg", "e.jpg", "Cat.jpg"]


@pytest.fixture
def answers() -> Answers:
    """Photos 1 to 4: classes 1, 1, 2, 2; the heads disagree on photo 2, which the other head takes for class 2.

    The run suggests photo 3 first, then photo 1.
    """
    return Answers(
        numbers=np.array([1, 2, 3, 4]),
        guesses=np.array([1, 1, 2, 2]),
        confidence=np.array([0.95, 0.6, 0.99, 0.5]),
        disagree=np.array([False, True, False, False]),
        others=np.array([1, 2, 2, 2]),
        places=np.array([2, 0, 1, 0]),
    )


def test_most_useful_photos_are_those_that_the_run_suggests(answers: Answers) -> None:
    assert answers.numbers[answers.most_useful()].tolist() == [3, 1, 2, 4]
    without = replace(answers, places=np.zeros(4, np.int64))  # doubt: 0.05, 0.4 + 1, 0.01, 0.5
    assert without.numbers[without.most_useful()].tolist() == [2, 4, 1, 3]


def test_what_is_counted(answers: Answers) -> None:
    found = summarise(answers, {3: 2, 0: 1}, [[2, 1], [7], [8, 9]])
    assert (found["photos"], found["open"], found["sure"], found["disagree"]) == (4, 3, 1, 1)
    assert found["groups"][0] == {"classes": [2, 1], "open": 3, "sure": 1, "disagree": 1}
    assert found["groups"][1]["open"] == 0
    assert found["pairs"] == [
        {"classes": [1, 2], "count": 1, "alike": True},
        {"classes": [8, 9], "count": 0, "alike": True},
    ]


def test_the_model_is_checked_on_photos_that_were_judged_blind() -> None:
    judged = {1: 1, 2: 1, 3: 2, 4: 1}  # it is wrong on photo 2; the label of photo 4 was taken away again
    found = check(judged, {0: 1, 1: 1, 2: 2, 3: 2})
    assert {name: found[name] for name in ("right", "count", "classes")} == {
        "right": 2, "count": 3, "classes": {1: [1, 1], 2: [1, 2]},
    }  # fmt: skip
    assert (found["low"], found["high"]) == pytest.approx((0.2077, 0.9385), abs=1e-4)  # Wilson's interval of 2 of 3
    assert check({}, {0: 1})["count"] == 0


def test_choosing_photos(answers: Answers) -> None:
    labels, diverse = {0: 1, 3: 2}, [5, 4, 3, 2, 1, 0]

    def chosen(**values: object) -> list[int]:
        return choose(Query(**values), NAMES, labels, diverse, answers)  # type: ignore[arg-type]

    assert chosen() == diverse
    assert chosen(order="name", labelled=False) == [1, 2, 4, 5]
    assert chosen(order="name", label=2) == [3]
    assert chosen(order="useful") == [3, 1, 2, 4, 0, 5]
    assert chosen(order="sure") == [3, 1, 4, 2, 0, 5]
    assert chosen(order="name", guesses=(2,)) == [3, 4]
    assert chosen(order="name", disagree=True) == [2]
    assert chosen(order="name", disagree=True, guesses=(1, 3)) == []
    assert chosen(order="name", least=0.9) == [1, 3]
    assert chosen(order="name", text="cat") == [5]
    assert sorted(chosen(order="random", labelled=False)) == [1, 2, 4, 5]
    assert choose(Query(order="useful", least=0.9), NAMES, labels, diverse, None) == []
    assert choose(Query(order="useful"), NAMES, labels, diverse, None) == diverse


def test_queries_of_the_page() -> None:
    query = Query.parse({"order": "name", "labelled": "no", "guesses": "1,2", "least": "0.5", "text": "CAT"})
    assert query == Query("name", False, None, (1, 2), False, 0.5, 1.0, "cat")
    for bad in ({"order": "colour"}, {"label": "x"}, {"least": "much"}):
        with pytest.raises(UserError):
            Query.parse(bad)


def test_answers_are_sent_in_columns(answers: Answers) -> None:
    assert with_answers([2, 0, 3], answers) == {
        "numbers": [2, 0, 3], "guesses": [1, -1, 2], "confidence": [60, -1, 99], "others": [2, -1, -1],
    }  # fmt: skip
    assert with_answers([1], None) == {"numbers": [1]}
    nothing = Answers(*(np.zeros(0, np.int64) for _ in range(6)))  # type: ignore[arg-type]
    assert with_answers([1], nothing)["guesses"] == [-1]


def pseudo(class_ids: list[int], confidence: list[float]) -> PseudoLabels:
    count = len(class_ids)
    return PseudoLabels(
        class_ids=torch.tensor(class_ids), confidence=torch.tensor(confidence), weights=torch.ones(count)
    )


def test_answers_are_read_from_the_run(tmp_path: Path) -> None:
    root, run = tmp_path / "photos", RunFolder(tmp_path / "run")
    root.mkdir()
    for name in ("a.png", "b.png", "c.png"):
        Image.new("RGB", (8, 8)).save(root / name)
    photos = Photos(root, tmp_path / "cache")
    heads = {"one_hot": pseudo([0, 1, 0], [0.75, 0.5, 0.5]), "semantic": pseudo([0, 0, 1], [0.25, 0.75, 0.25])}
    paths = [str(root / name) for name in ("a.png", "c.png", "gone.png")]
    columns = np.arange(3), np.full(3, -1), heads, paths, ["cat", "dog"], np.array([2, 0, 1])
    write_pseudo_labels(run.pseudo_labels_file, *columns)
    found = read_answers(run, photos, {5: "dog", 6: "cat"})
    assert found.numbers.tolist() == [0, 2]
    assert found.places.tolist() == [2, 0]
    assert found.guesses.tolist() == [6, 6]
    assert found.others.tolist() == [6, 5]
    assert found.confidence.tolist() == [0.75, 0.75]
    assert found.disagree.tolist() == [False, True]
    assert read_answers(run, photos, {6: "cat"}).others.tolist() == [6, -1]  # dog was removed
    run.pseudo_labels_file.write_bytes(b"damaged")
    with pytest.raises(UserError, match="train again"):
        read_answers(run, photos, {})


def test_curves_are_thinned() -> None:
    lines = ({"step": step, "loss": 1 / (1 + step), "disagreement": None, "other": 1.0} for step in range(1000))
    found = curves(lines)
    assert list(found) == ["loss"]
    assert (found["loss"][0], len(found["loss"])) == ([0, 1.0], 334)


def test_the_curve_of_retained_photos_leaves_out_those_with_a_label() -> None:
    line = {"step": 5, "mask_one_hot": 0.9, "pseudo/one_hot/ratio": 0.8}
    assert curves(iter([line])) == {"pseudo/one_hot/ratio": [[5, 0.8]]}
