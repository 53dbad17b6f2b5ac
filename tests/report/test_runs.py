"""Reading finished and interrupted runs, and naming experiments."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest

from semco.config import Config
from semco.errors import UserError
from semco.report.analysis.sections import run_sections
from semco.report.charts import mean_curve, timed_lines_with_mean
from semco.report.names import group_by_experiment, variant_names
from semco.report.runs import Series, read_run, read_runs


def test_a_finished_run(make_run) -> None:
    run = read_run(make_run("semco", seed=3))
    assert run.is_finished
    assert (run.method, run.seed, run.steps, run.seconds) == ("semco", 3, 1000, 150.0)
    assert run.num_labels == 40
    assert run.class_names[0] == "t-shirt"
    assert run.pseudo_label_heads() == ["one_hot", "semantic"]


def test_an_interrupted_run(make_run) -> None:
    run = read_run(make_run("semco", killed_at=340))
    assert not run.is_finished
    assert run.accuracy() is None
    assert run.steps == 340
    assert run.seconds == pytest.approx(51.0)
    assert run.series("validation_accuracy")[0] == [100.0, 200.0, 300.0]
    assert run.num_labels == 40


def test_a_series_has_only_finite_values(make_run) -> None:
    folder = make_run("semco")
    lines = [{"step": 1, "a": 1.0}, {"step": 2, "a": None}, {"step": 3}, {"step": 4, "a": math.nan}, {"a": 9.0}]
    lines += [{"step": 5, "a": 0}]
    (folder / "metrics.jsonl").write_text("\n".join(json.dumps(line) for line in lines))
    assert read_run(folder).series("a") == ([1.0, 5.0], [1.0, 0.0])


def test_num_labels_is_none_if_every_label_is_used(make_run) -> None:
    run = read_run(make_run("semco", config={"data": {"labels_per_class": None}}))
    assert run.num_labels is None


def test_a_folder_without_a_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="not a run folder"):
        read_run(tmp_path)


def test_a_damaged_file_is_named(make_run) -> None:
    folder = make_run("semco")
    (folder / "labels.json").write_text("[1")
    with pytest.raises(UserError, match=r"labels\.json is not valid JSON"):
        read_run(folder)
    (folder / "labels.json").write_text("[1]")
    with pytest.raises(UserError, match=r"labels\.json contains a list, not a JSON object"):
        read_run(folder)


def test_runs_that_differ_in_the_seed_are_one_experiment(make_run) -> None:
    runs = [read_run(make_run("semco", seed)) for seed in (0, 1)] + [read_run(make_run("fixmatch"))]
    assert {name: len(group) for name, group in group_by_experiment(runs).items()} == {"SemCo": 2, "FixMatch": 1}


def test_a_run_ends_on_the_axis_of_time_at_its_last_log_line(make_run) -> None:
    run = read_run(make_run("semco"))
    assert run.result is not None
    later = replace(run, result=run.result.model_copy(update={"seconds": 1e6}))  # with the evaluation and the report
    assert later.seconds == 1e6
    assert later.logged_seconds == run.metrics[-1]["seconds"]


def test_error_against_a_field_needs_two_values_of_one_method(make_run) -> None:
    def titles(*runs: tuple[str, float]) -> list[str]:
        found = [read_run(make_run(name, config={"labels": {"eps": eps}})) for name, eps in runs]
        return [section.title for section in run_sections(found) if section.title.startswith("Error against")]

    assert titles(("semco", 0.1), ("semco", 0.2)) == ["Error against labels.eps"]
    assert titles(("semco", 0.1), ("semco", 0.2), ("fixmatch", 0.2)) == ["Error against labels.eps"]
    assert titles(("semco", 0.1), ("fixmatch", 0.2)) == []


def test_experiments_of_one_method_are_named_after_the_fields_that_differ(make_run) -> None:
    default, without = make_run("semco"), make_run("semco", config={"labels": {"eps": 0}})
    names = list(group_by_experiment([read_run(default), read_run(without)]))
    assert names == ["SemCo", "SemCo (eps=0)"]


def test_fields_with_their_default_are_not_in_the_name(make_run) -> None:
    eps = Config().labels.eps
    settings = ({"eps": eps}, {"eps": 0}, {"eps": eps, "targets": "one_hot"})
    folders = [make_run("semco", config={"labels": labels}) for labels in settings]
    names = list(group_by_experiment([read_run(folder) for folder in folders]))
    assert names == ["SemCo", "SemCo (eps=0)", "SemCo (targets=one_hot)"]


def test_label_vectors_are_not_in_the_name_of_a_method_without_them(make_run) -> None:
    folders = [make_run(name, config={"labels": {"eps": eps}}) for name, eps in (("fixmatch", 0.1), ("semco", 0.2))]
    assert list(group_by_experiment([read_run(folder) for folder in folders])) == ["FixMatch", "SemCo (eps=0.2)"]


def test_variants_of_a_comparison_have_the_words_of_the_user(make_run) -> None:
    """Not the fields that a recipe has set; a method that is there once has its title."""
    plain, without = make_run("semco_plus"), make_run("semco_plus", config={"labels": {"eps": 0}})
    other, alone = make_run("semco"), make_run("fixmatch", config={"method": {"tau": 0.8}})
    typed = {plain: "semco_plus", without: "semco_plus+no-grouping", other: "semco", alone: "fixmatch+method.tau=0.8"}
    runs = read_runs(list(typed), typed)
    expected = ["semco_plus", "semco_plus+no-grouping", "SemCo", "fixmatch+method.tau=0.8"]
    assert list(group_by_experiment(runs)) == expected
    assert variant_names(runs) == dict(zip(typed.values(), expected, strict=True))


def test_names_of_experiments_are_unique(make_run) -> None:
    long = "x" * 30
    folders = [make_run("semco", config={"data": {"source": long + end}}) for end in "ab"]
    assert len(group_by_experiment([read_run(folder) for folder in folders])) == 2


def test_an_unknown_method_is_shown_by_its_name(make_run) -> None:
    folder = make_run("supervised", config={"method": {"name": "from-the-future"}})
    assert list(group_by_experiment([read_run(folder)])) == ["from-the-future"]


def test_the_mean_curve_has_the_steps_of_all_curves() -> None:
    assert mean_curve([([1, 2, 3], [1.0, 2.0, 3.0]), ([1, 3, 4], [3.0, 4.0, 9.0])]) == ([1, 3], [2.0, 3.5])


def test_curves_over_time() -> None:
    """Two seeds, validated at steps 2 and 4, at 10 and 20 seconds and at 30 and 50."""
    curves: list[Series] = [([2, 4], [0.5, 0.4]), ([2, 4], [0.3, 0.2])]
    times: list[Series] = [([1, 2, 4], [5, 10, 20]), ([2, 3, 4], [30, 40, 50])]
    first, second, mean = timed_lines_with_mean("a", curves, times, 0)
    assert (first.x, first.y, first.is_faint) == ([10, 20], [0.5, 0.4], True)
    assert (second.x, second.y, second.is_faint) == ([30, 50], [0.3, 0.2], True)
    assert (mean.x, mean.is_faint) == ([20, 35], False)
    assert mean.y == pytest.approx([0.4, 0.3])
    (alone,) = timed_lines_with_mean("a", curves[:1], times[:1], 0)
    assert (alone.x, alone.is_faint) == ([10, 20], False)
