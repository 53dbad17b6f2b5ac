"""Cells, restarts and failures of a comparison."""

from __future__ import annotations

import csv
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from semco.config import configure, merge
from semco.distributed.cluster import RayOptions
from semco.errors import UserError
from semco.experiment import train
from semco.experiment.comparison import (
    HEADS,
    PSEUDO_LABELS,
    Cell,
    Outcome,
    check_data,
    check_requests,
    differing_fields,
    make_cells,
    notes_on,
    parse_seeds,
    pseudo_label_rows,
    vary_fields,
    write_csv,
)
from semco.experiment.engines import Shard
from semco.experiment.engines.local import LocalEngine
from semco.experiment.engines.ray_tasks import wait_until_free
from semco.run.folder import RunFolder
from semco.run.result import RunResult


def outcome(variant: str, seed: int, accuracy: float | None) -> Outcome:
    cell = Cell(variant, seed, configure(), RunFolder(Path(f"{variant}-{seed}")))
    return Outcome(cell, None if accuracy is None else result_of(variant, accuracy))


def result_of(method: str, accuracy: float, **more: Any) -> RunResult:
    values = {"method": method, "run": "run", "head": "one_hot", "num_labels": 4, "steps": 1, "seconds": 1.0}
    return RunResult(**values, test_accuracy=accuracy, **more)


def test_pseudo_labels_are_averaged_over_the_seeds_that_have_them() -> None:
    numbers = [{"ratio": 0.2, "accuracy": None}, {"ratio": 0.4, "accuracy": 0.5}]
    outcomes = [
        replace(outcome("a", seed, 0.5), result=result_of("a", 0.5, pseudo_labels={"one_hot": each}))
        for seed, each in enumerate(numbers)
    ]
    outcomes.append(outcome("a", 2, 0.5))
    (row,) = pseudo_label_rows([*outcomes, outcome("supervised", 0, 0.4)])
    assert (row.variant, row.head) == ("a", "one_hot")
    assert row.means["ratio"] == pytest.approx(0.3)
    assert row.means["accuracy"] == 0.5
    assert row.means["accuracy/grouped"] is None


def test_cells_differ_only_in_method_and_seed(tiny_values: dict[str, Any], tmp_path: Path) -> None:
    cells = make_cells(["supervised", "semco_plus+no-grouping+no-cotraining"], [0, 4], tmp_path, tiny_values)
    assert [cell.name for cell in cells] == [
        "supervised, seed 0",
        "supervised, seed 4",
        "semco_plus+no-grouping+no-cotraining, seed 0",
        "semco_plus+no-grouping+no-cotraining, seed 4",
    ]
    assert cells[2].config.method.lambda_co == 0.0  # type: ignore[attr-defined]
    assert cells[2].run.path.name == "semco_plus+no-grouping+no-cotraining-seed0"
    assert cells[0].config.data == cells[3].config.data
    assert cells[1].config.training.seed == 4


@pytest.mark.parametrize(
    ("variants", "settings", "sentence"),
    [
        (["supervised"], ["training.seed=7"], "training.seed=7 would be the seed of all runs; give the seeds instead."),
        (
            ["semco"],
            ["method.name=fixmatch"],
            "method.name=fixmatch would be the method of all runs; give the variants",
        ),
    ],
)
def test_cells_that_differ_in_more_are_refused(
    variants: list[str], settings: list[str], sentence: str, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=sentence):
        make_cells(variants, [0, 1], tmp_path, {}, settings)


def test_heads_on_random_features_are_mentioned_once(tmp_path: Path) -> None:
    cells = make_cells(["linear_probe", "supervised"], [0, 1], tmp_path, {"model": {"backbone": "wrn-10-1"}}, [])
    (note,) = notes_on(cells)
    assert note.startswith("linear_probe is fitted to the features of wrn-10-1, whose weights are random")


def test_variants_may_differ_in_anything_and_it_is_shown(tmp_path: Path) -> None:
    cells = make_cells(["fixmatch", "semco+training.mu=7+labels.eps=0.1", "demo+fixmatch"], [0, 1], tmp_path, {})
    assert cells[2].config.training.mu == 7
    assert cells[2].config.labels.eps == 0.1
    differing = differing_fields(cells)
    assert differing["training.mu"] == ["3", "7"]
    assert differing["training.steps"] == ["None", "400"]
    assert not any(name.startswith(("labels.", "method.")) or name == "training.seed" for name in differing)


def test_fields_vary_in_every_combination() -> None:
    assert vary_fields(["semco", "fixmatch"], []) == ["semco", "fixmatch"]
    assert vary_fields(["semco"], ["labels.eps=0,0.1", "method.lambda_co=0.5, 1"]) == [
        "semco+labels.eps=0+method.lambda_co=0.5",
        "semco+labels.eps=0+method.lambda_co=1",
        "semco+labels.eps=0.1+method.lambda_co=0.5",
        "semco+labels.eps=0.1+method.lambda_co=1",
    ]
    for text in ("labels.eps", "labels.eps=", "labels.eps=1,,2"):
        with pytest.raises(UserError, match=r"a field to vary is dotted.key=value,value, not "):
            vary_fields(["semco"], [text])


ABLATIONS = ("no-grouping", "no-cotraining", "no-grouping+no-cotraining", "one-hot-targets")


def test_an_ablation_switches_off_each_part(tmp_path: Path) -> None:
    cells = make_cells(["semco", *(f"semco+{part}" for part in ABLATIONS)], [0], tmp_path, {})
    parts = [(c.config.labels.eps, c.config.method.lambda_co, c.config.labels.targets) for c in cells]  # type: ignore[attr-defined]
    assert parts == [
        ("auto", 1.0, "embedding"),
        (0.0, 1.0, "embedding"),
        ("auto", 0.0, "embedding"),
        (0.0, 0.0, "embedding"),
        ("auto", 1.0, "one_hot"),
    ]


def test_an_unknown_variant_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="each variant must be given once"):
        make_cells(["fixmatch", "fixmatch"], [0], Path("out"), {})
    with pytest.raises(UserError, match="unknown recipe 'semko'; did you mean 'semco'"):
        make_cells(["semko"], [0], tmp_path, {})


def test_a_run_is_no_place_for_a_comparison(tmp_path: Path) -> None:
    RunFolder.create(tmp_path / "run", configure(), configure())
    with pytest.raises(UserError, match="run is the folder of a run; choose another folder for the comparison"):
        make_cells(["semco"], [0], tmp_path / "run", {})


def test_a_comparison_is_no_run(tmp_path: Path) -> None:
    for name in ("a-seed0", "b-seed0"):
        RunFolder.create(tmp_path / name, configure(), configure())
    with pytest.raises(UserError, match=rf"holds several runs; choose one: {tmp_path}/a-seed0, {tmp_path}/b-seed0"):
        RunFolder.open(tmp_path)


def test_bad_data_are_reported_before_anything_is_written(tiny_values: dict[str, Any], tmp_path: Path) -> None:
    """But not what is wrong with one method: the others go on."""
    missing = {"labels": {"path": str(tmp_path / "missing.npy")}}
    check_data(make_cells(["semco"], [0], tmp_path / "out", merge(tiny_values, missing)))
    many = merge(tiny_values, {"data": {"labels_per_class": 10**6}})
    with pytest.raises(UserError, match="1000000"):
        check_data(make_cells(["semco"], [0], tmp_path / "out", many))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("text", ["a", "1,1", "-1", ""])
def test_bad_seeds(text: str) -> None:
    with pytest.raises(UserError, match="seed"):
        parse_seeds(text)


@pytest.mark.usefixtures("forked_processes")
def test_finished_cells_are_skipped_and_failed_ones_stop_nothing(tiny_values: dict[str, Any], tmp_path: Path) -> None:
    short = merge(tiny_values, {"training": {"steps": 2}})
    good = make_cells(["supervised"], [0, 1], tmp_path, short)
    (bad,) = make_cells(["semco"], [0], tmp_path, merge(short, {"labels": {"path": str(tmp_path / "missing.npy")}}))
    train(good[1].config, good[1].run.path)
    before = good[1].run.result_file.stat().st_mtime_ns
    ended_cells: list[str] = []
    begun: list[tuple[int, str]] = []
    outcomes = LocalEngine(2).run(
        [good[0], bad, good[1]],
        lambda ended: ended_cells.append(ended.cell.name),
        lambda number, cell: begun.append((number, cell.name)),
    )
    assert sorted(begun) == [(1, "supervised, seed 0"), (2, "semco, seed 0")]
    assert sorted(ended_cells) == ["semco, seed 0", "supervised, seed 0", "supervised, seed 1"]
    assert [ended.result is not None for ended in outcomes] == [True, False, True]
    assert "missing.npy" in outcomes[1].problem
    write_csv(outcomes, tmp_path / "results.csv")
    with (tmp_path / "results.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    assert [(row["variant"], row["seed"], row["steps"]) for row in rows] == [
        ("supervised", "0", "2"),
        ("supervised", "1", "2"),
    ]
    assert {f"{head}/{name}" for head in HEADS for name in PSEUDO_LABELS} <= set(rows[0])
    assert good[1].run.result_file.stat().st_mtime_ns == before


@pytest.mark.parametrize("missing", ["report.html", "pseudo_labels.parquet"])
def test_a_run_that_was_killed_after_its_result_is_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    commands: list[list[str]] = []
    (cell,) = make_cells(["supervised"], [0], tmp_path, {})
    files = ("config.yaml", "model/model.json", "report.html", "pseudo_labels.parquet")
    for name in files:
        (cell.run.path / name).parent.mkdir(parents=True, exist_ok=True)
        (cell.run.path / name).touch()
    cell.run.write_result(result_of("supervised", 0.5))

    def run_command(command: list[str], *_: object) -> tuple[int, str]:
        commands.append(command[3:])
        return 0, ""

    monkeypatch.setattr("semco.experiment.engines.local._run_command", run_command)
    LocalEngine().run([cell], lambda _: None)
    assert commands == []
    (cell.run.path / missing).unlink()
    LocalEngine().run([cell], lambda _: None)
    assert commands == [["resume", str(cell.run.path)]]


def test_a_folder_of_another_comparison_is_refused(tiny_values: dict[str, Any], tmp_path: Path) -> None:
    (cell,) = make_cells(["supervised"], [0], tmp_path, tiny_values)
    RunFolder.create(cell.run.path, cell.config, cell.config)
    moved = str(tmp_path / "elsewhere" / Path(cell.config.data.source).name)
    check_requests(make_cells(["supervised"], [0], tmp_path, merge(tiny_values, {"data": {"source": moved}})))
    for other in ("fashion-mini", str(tmp_path / "other.npz")):
        with pytest.raises(UserError, match="another configuration"):
            check_requests(make_cells(["supervised"], [0], tmp_path, merge(tiny_values, {"data": {"source": other}})))
    with pytest.raises(UserError, match="another configuration"):
        check_requests(make_cells(["supervised"], [0], tmp_path, merge(tiny_values, {"training": {"steps": 99}})))


@pytest.mark.parametrize("count", [1, 2, 3, 7, 12])
def test_shards_are_disjoint_and_complete(count: int) -> None:
    shards = [Shard.parse(f"{i}/{count}").of(range(10)) for i in range(1, count + 1)]
    assert sorted(number for shard in shards for number in shard) == list(range(10))
    assert max(map(len, shards)) - min(map(len, shards)) <= 1
    assert shards[0][:2] == [0, count][: len(shards[0])]


@pytest.mark.parametrize("text", ["0/2", "3/2", "2", "1/0", "-1/2", "1/2/3", "a/b", ""])
def test_bad_shards(text: str) -> None:
    with pytest.raises(UserError, match="a shard is i/n with i from 1 to n"):
        Shard.parse(text)


def test_threads_are_the_cpus_of_a_task(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert RayOptions(cpus=4, gpus=0.5).environment == {"OMP_NUM_THREADS": "4"}
    assert RayOptions(cpus=0.5).environment == {"OMP_NUM_THREADS": "1"}
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert RayOptions().environment == {"OMP_NUM_THREADS": "3"}
    for cpus, gpus in ((0, 0), (-1, 1)):
        with pytest.raises(UserError, match="needs CPUs or GPUs"):
            RayOptions(cpus=cpus, gpus=gpus)


def test_a_run_that_another_process_still_holds_is_waited_for(tmp_path: Path) -> None:
    run = RunFolder(tmp_path / "run")
    wait_until_free(run)  # there is none
    RunFolder.create(run.path, configure(), configure())
    is_held, ended = threading.Event(), []

    def hold() -> None:
        with run.lock():
            is_held.set()
            time.sleep(0.3)
            ended.append(True)

    thread = threading.Thread(target=hold)
    thread.start()
    is_held.wait()
    with pytest.raises(UserError, match="is being trained by another process"):
        wait_until_free(run, 0.0)
    wait_until_free(run)
    assert ended
    thread.join()
