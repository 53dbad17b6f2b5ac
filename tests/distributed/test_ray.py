"""Runs and predictions on a real Ray of two nodes on this machine; one module, because they share it.

The tests of what can go wrong take minutes and are marked slow.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from PIL import Image

from semco.config import merge
from semco.distributed.cluster import RayOptions, check_shared, connect
from semco.errors import UserError
from semco.experiment import train
from semco.experiment.comparison import Cell, Outcome, make_cells
from semco.experiment.engines.ray_tasks import RayEngine, train_cell
from semco.predict.images import Output, predict_into
from semco.predict.ray_actors import Model, predict_parts
from semco.run.folder import RunFolder
from semco.run.result import RunResult

ray = pytest.importorskip("ray", reason="the extra 'ray' is not installed")

pytestmark = [
    pytest.mark.xdist_group("ray"),
    pytest.mark.filterwarnings("ignore"),  # Ray leaves sockets and files open
]
VARIANTS, SEEDS = ("supervised", "fixmatch"), (0, 1)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Two nodes with one CPU each, in a folder of their own; a short path, because sockets are in it."""
    from ray.cluster_utils import Cluster

    folder = tempfile.mkdtemp(prefix="ray")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_TMPDIR", folder)  # Ray also writes the address of the cluster there
        patch.setenv("OMP_NUM_THREADS", "1")
        nodes = Cluster(True, head_node_args={"num_cpus": 1, "include_dashboard": False})
        nodes.add_node(num_cpus=1)
        try:
            yield nodes
        finally:
            ray.shutdown()
            nodes.shutdown()
            shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def one_thread() -> Iterator[None]:
    """As many threads as an actor has: another number may round differently."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def values(tiny_values: dict[str, Any]) -> dict[str, Any]:
    return merge(tiny_values, {"model": {"backbone": "wrn-10-1"}})  # one that every process can build


def silent(_: Outcome) -> None: ...


def models(cells: list[Cell]) -> list[bytes]:
    return [(cell.run.model / "model.safetensors").read_bytes() for cell in cells]


def steps_of(run: RunFolder) -> list[int]:
    return [int(line["step"]) for line in run.metrics()]


@pytest.mark.usefixtures("one_thread", "no_page")
def test_a_grid_on_two_nodes_has_the_bits_of_local_runs(cluster: Any, values: dict[str, Any], tmp_path: Path) -> None:
    """Four runs and one that fails; the same command again has nothing to do."""
    cells = make_cells(VARIANTS, SEEDS, tmp_path / "ray", values)
    missing = merge(values, {"labels": {"path": str(tmp_path / "missing.npy")}})
    cells += make_cells(["semco"], [0], tmp_path / "ray", missing)
    engine = RayEngine(RayOptions(cluster.address))
    begun: list[int] = []
    ended: list[str] = []
    outcomes = engine.run(cells, lambda each: ended.append(each.cell.name), lambda number, _: begun.append(number))
    assert [outcome.cell for outcome in outcomes] == cells
    assert sorted(ended) == sorted(cell.name for cell in cells)
    assert sorted(begun) == [1, 2, 3, 4, 5]
    assert "missing.npy" in outcomes[-1].problem
    assert all(outcome.result is not None for outcome in outcomes[:-1])
    alone = make_cells(VARIANTS, SEEDS, tmp_path / "local", values)
    for cell in (alone[0], alone[-1]):
        train(cell.config, cell.run.path)
    assert models([cells[0], cells[3]]) == models([alone[0], alone[-1]])
    assert not list((tmp_path / "ray").glob(".probe*"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("semco.experiment.engines.ray_tasks.connect", lambda _: pytest.fail("Ray is not needed"))
        assert [each.result for each in engine.run(cells[:-1], silent)] == [each.result for each in outcomes[:-1]]


def photos(folder: Path, count: int) -> Path:
    """Write photos, of which every seventh cannot be read, and a list of them with many lines."""
    folder.mkdir()
    random = np.random.default_rng(0)
    for number in range(count):
        file = folder / f"{number}.png"
        Image.fromarray(random.integers(0, 256, (20, 20, 3), dtype=np.uint8)).save(file)
        if number % 7 == 3:
            file.write_bytes(b"no image")
    return folder


def predict_locally(run: Path, images: list[str], file: Path) -> list[dict[str, Any]]:
    predict_into(Output(file), Model(run).load(), images)
    return pq.read_table(file).to_pylist()


def rows_in(folder: Path) -> list[dict[str, Any]]:
    """Return the rows of all parts as a reader of Parquet folders finds them."""
    return pq.read_table(folder).to_pylist()


def write_list(folder: Path, files: int, lines: int) -> str:
    """Write photos and a list that names each of them several times."""
    photos(folder / "photos", files)
    listed = folder / "list.txt"
    listed.write_text("".join(f"photos/{i % files}.png\n" for i in range(lines)), encoding="utf-8")
    return f"@{listed}"


def train_one(values: dict[str, Any], run: Path) -> None:
    request = make_cells(["supervised"], [0], run.parent, values)[0].config.to_yaml()
    assert isinstance(train_cell(request, str(run), "."), RunResult)


@pytest.mark.usefixtures("one_thread")
def test_predictions_in_parts_are_those_of_one_table(cluster: Any, values: dict[str, Any], tmp_path: Path) -> None:
    run, listed, folder = tmp_path / "run", write_list(tmp_path, 50, 600), tmp_path / "parts"
    train_one(values, run)
    expected = predict_locally(run, [listed], tmp_path / "local.parquet")
    assert len(expected) == 600
    assert sum(row["error"] is not None for row in expected) == 7 * 12
    on_ray = RayOptions(cluster.address)
    summary = predict_parts(Output(folder), Model(run), [listed], on_ray, per_part=200)
    assert (summary.predicted, summary.unreadable) == (600 - 84, 84)
    assert [pq.read_metadata(file).num_rows for file in sorted(folder.glob("part-*"))] == [
        256,
        256,
        88,
    ]  # whole batches
    assert rows_in(folder) == expected
    (folder / "part-000002.parquet").unlink()
    again = predict_parts(Output(folder), Model(run), [listed], on_ray, per_part=200)
    assert again.predicted + again.unreadable == 88
    assert rows_in(folder) == expected
    with pytest.raises(UserError, match=r"holds predictions of another request \(top\)"):
        predict_parts(Output(folder, top=3), Model(run), [listed], on_ray, per_part=200)
    with pytest.raises(UserError, match="holds no predictions in parts"):
        predict_parts(Output(tmp_path / "photos"), Model(run), [listed], on_ray)


def test_a_folder_that_is_not_shared_is_refused(cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("semco.distributed.cluster.Path.read_text", lambda *_, **__: "something else")
    with connect(RayOptions(cluster.address)) as module, pytest.raises(UserError, match="all machines must share"):
        check_shared(module, tmp_path)
    assert not list(tmp_path.iterdir())


def test_an_address_without_ray_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:  # Ray itself tries for more than a minute
        raise ConnectionError("Could not find any running Ray instance.\nMore lines.")

    monkeypatch.setattr(ray, "init", refuse)
    sentence = r"Ray cannot be used at auto: Could not find any running Ray instance\.$"
    with pytest.raises(UserError, match=sentence), connect(RayOptions("auto")):
        pass


def start_compare(values: dict[str, Any], out: Path, engine: list[str]) -> subprocess.Popen[str]:
    """Start a comparison of six runs of 60 steps with a checkpoint every 5."""
    length = {"training": {"steps": 60, "checkpoint_every": 5, "log_every": 1}}
    settings = [f"{section}.{name}={value}" for section, fields in merge(values, length).items()
                for name, value in fields.items() if name != "source"]  # fmt: skip
    command = [sys.executable, "-m", "semco", "compare", values["data"]["source"], "--methods", ",".join(VARIANTS)]
    command += ["--seeds", "0,1,2", "--out", str(out), *engine]
    for setting in settings:
        command += ["--set", setting]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def wait_for_checkpoints(out: Path, count: int, process: subprocess.Popen[str]) -> None:
    while sum(1 for _ in out.glob("*/checkpoints/step-*.safetensors")) < count:
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)


def kept_lines(out: Path) -> dict[str, list[str]]:
    """Return the lines of the metrics up to the last checkpoint of each run; they hold the time of training."""
    found = {}
    for run in map(RunFolder, out.glob("*-seed*/")):
        steps = [int(file.stem.removeprefix("step-")) for file in run.checkpoints.glob("step-*.safetensors")]
        if steps:
            lines = run.metrics_file.read_text(encoding="utf-8").splitlines()
            found[run.path.name] = [line for line in lines if json.loads(line)["step"] <= max(steps)]
    return found


def check_same(out: Path, alone: Path, before: dict[str, list[str]]) -> None:
    """Every run has finished, has the bits of a local one, and was resumed, not repeated."""
    runs = sorted(path.name for path in alone.glob("*-seed*/"))
    assert len(runs) == 6
    for name in runs:
        files = [(folder / name / "model" / "model.safetensors").read_bytes() for folder in (out, alone)]
        assert files[0] == files[1], name
    assert before
    for name, lines in before.items():
        assert (out / name / "metrics.jsonl").read_text(encoding="utf-8").splitlines()[: len(lines)] == lines, name


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the comparison by the local engine."""
    return tmp_path_factory.mktemp("local") / "runs"


def run_alone(values: dict[str, Any], alone: Path) -> None:
    if not alone.exists():
        process = start_compare(values, alone, ["--jobs", "2"])
        assert process.wait(500) == 0, process.communicate()


@pytest.mark.slow
def test_a_node_that_is_lost_costs_no_run(cluster: Any, values: dict[str, Any], alone: Path, tmp_path: Path) -> None:
    run_alone(values, alone)
    out = tmp_path / "runs"
    node = cluster.add_node(num_cpus=1)
    process = start_compare(values, out, ["--engine", "ray", "--address", cluster.address])
    wait_for_checkpoints(out, 3, process)
    before = kept_lines(out)
    cluster.remove_node(node, allow_graceful=False)
    _, errors = process.communicate(timeout=500)
    assert process.returncode == 0, errors
    check_same(out, alone, before)


@pytest.mark.slow
def test_a_killed_driver_continues_with_any_engine(
    cluster: Any, values: dict[str, Any], alone: Path, tmp_path: Path
) -> None:
    run_alone(values, alone)
    out = tmp_path / "runs"
    on_ray = ["--engine", "ray", "--address", cluster.address]
    for number, engine in ((signal.SIGKILL, on_ray), (signal.SIGINT, ["--jobs", "2"])):
        process = start_compare(values, out, on_ray)
        wait_for_checkpoints(out, 2, process)
        process.send_signal(number)
        _, errors = process.communicate(timeout=100)
        assert process.returncode == (-9 if number == signal.SIGKILL else 130), errors
        time.sleep(5)  # Ray ends the processes of a driver that has gone
        before = kept_lines(out)
        process = start_compare(values, out, engine)
        _, errors = process.communicate(timeout=500)
        assert process.returncode == 0, errors
        check_same(out, alone, before)
        shutil.rmtree(out)


@pytest.mark.slow
@pytest.mark.usefixtures("one_thread")
def test_an_actor_that_is_killed_loses_and_repeats_no_photo(
    cluster: Any, values: dict[str, Any], tmp_path: Path
) -> None:
    run, listed = tmp_path / "run", write_list(tmp_path, 200, 2000)
    train_one(values, run)
    expected = predict_locally(run, [listed], tmp_path / "local.parquet")
    killed: list[int] = []

    def kill_once(_count: int) -> None:
        if not killed:
            killed.append(next(actors_of_this_cluster()))
            os.kill(killed[0], signal.SIGKILL)

    summary = predict_parts(
        Output(tmp_path / "parts"), Model(run), [listed], RayOptions(cluster.address), kill_once, per_part=100
    )
    assert killed
    assert summary.predicted + summary.unreadable == 2000
    assert rows_in(tmp_path / "parts") == expected


def actors_of_this_cluster() -> Iterator[int]:
    """Yield the processes that predict parts; those of another Ray on this machine have another folder."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            command, variables = (folder / "cmdline").read_bytes(), (folder / "environ").read_bytes()
        except OSError:  # it has ended, or is not ours
            continue
        if (
            command.startswith(b"ray::")
            and b"PartPredictor" in command
            and os.environ["RAY_TMPDIR"].encode() in variables
        ):
            yield int(folder.name)
