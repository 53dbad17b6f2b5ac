"""Reading runs that are finished, going on, or killed, and telling experiments apart."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from semco.config import Config
from semco.errors import UserError
from semco.report.charts import _timed, mean_curve
from semco.report.names import experiments
from semco.report.runs import Series, read_run


def test_a_finished_run(make_run) -> None:
    run = read_run(make_run("semco", seed=3))
    assert run.finished
    assert (run.method, run.seed, run.steps, run.seconds) == ("semco", 3, 1000, 150.0)
    assert run.label_count() == 40
    assert run.class_names[0] == "t-shirt"
    assert run.pseudo_label_heads() == ["one_hot", "semantic"]


def test_a_killed_run_has_what_it_wrote(make_run) -> None:
    run = read_run(make_run("semco", killed_at=340))
    assert not run.finished
    assert run.accuracy() is None
    assert run.steps == 340
    assert run.seconds == pytest.approx(51.0)
    assert run.series("validation_accuracy")[0] == [100.0, 200.0, 300.0]
    assert run.label_count() == 40


def test_a_series_leaves_out_what_is_missing_or_not_finite(make_run) -> None:
    folder = make_run("semco")
    lines = [{"step": 1, "a": 1.0}, {"step": 2, "a": None}, {"step": 3}, {"step": 4, "a": math.nan}, {"a": 9.0}]
    lines += [{"step": 5, "a": 0}]
    (folder / "metrics.jsonl").write_text("\n".join(json.dumps(line) for line in lines))
    assert read_run(folder).series("a") == ([1.0, 5.0], [1.0, 0.0])


def test_all_labels_have_no_count(make_run) -> None:
    run = read_run(make_run("semco", config={"data": {"labels_per_class": None}}))
    assert run.label_count() is None


def test_a_folder_that_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="not a run folder"):
        read_run(tmp_path)


def test_a_broken_file_is_named(make_run) -> None:
    folder = make_run("semco")
    (folder / "labels.json").write_text("[1")
    with pytest.raises(UserError, match=r"labels\.json is not valid JSON"):
        read_run(folder)
    (folder / "labels.json").write_text("[1]")
    with pytest.raises(UserError, match=r"labels\.json must hold one JSON object, not list"):
        read_run(folder)


def test_seeds_are_repeats_of_one_experiment(make_run) -> None:
    runs = [read_run(make_run("semco", seed)) for seed in (0, 1)] + [read_run(make_run("fixmatch"))]
    assert {name: len(group) for name, group in experiments(runs).items()} == {"SemCo": 2, "FixMatch": 1}


def test_experiments_of_one_method_are_named_by_what_differs(make_run) -> None:
    default, without = make_run("semco"), make_run("semco", config={"labels": {"eps": 0}})
    names = list(experiments([read_run(default), read_run(without)]))
    assert names == ["SemCo", "SemCo (eps=0)"]


def test_what_has_its_default_goes_without_saying(make_run) -> None:
    eps = Config().labels.eps
    settings = ({"eps": eps}, {"eps": 0}, {"eps": eps, "targets": "one_hot"})
    folders = [make_run("semco", config={"labels": labels}) for labels in settings]
    names = list(experiments([read_run(folder) for folder in folders]))
    assert names == ["SemCo", "SemCo (eps=0)", "SemCo (targets=one_hot)"]


def test_no_two_experiments_share_a_name(make_run) -> None:
    long = "x" * 30
    folders = [make_run("semco", config={"data": {"source": long + end}}) for end in "ab"]
    assert len(experiments([read_run(folder) for folder in folders])) == 2


def test_a_method_of_another_version_keeps_its_bare_name(make_run) -> None:
    folder = make_run("supervised", config={"method": {"name": "from-the-future"}})
    assert list(experiments([read_run(folder)])) == ["from-the-future"]


def test_the_mean_curve_is_over_shared_steps() -> None:
    assert mean_curve([([1, 2, 3], [1.0, 2.0, 3.0]), ([1, 3, 4], [3.0, 4.0, 9.0])]) == ([1, 3], [2.0, 3.5])


def test_steps_are_put_where_the_clock_stood() -> None:
    """Two seeds, validated at steps 2 and 4, at 10 and 20 seconds and at 30 and 50."""
    curves: list[Series] = [([2, 4], [0.5, 0.4]), ([2, 4], [0.3, 0.2])]
    clocks: list[Series] = [([1, 2, 4], [5, 10, 20]), ([2, 3, 4], [30, 40, 50])]
    first, second, mean = _timed("a", curves, clocks, 0)
    assert (first.x, first.y, first.faint) == ([10, 20], [0.5, 0.4], True)
    assert (second.x, second.y, second.faint) == ([30, 50], [0.3, 0.2], True)
    assert (mean.x, mean.faint) == ([20, 35], False)
    assert mean.y == pytest.approx([0.4, 0.3])
    (alone,) = _timed("a", curves[:1], clocks[:1], 0)
    assert (alone.x, alone.faint) == ([10, 20], False)
