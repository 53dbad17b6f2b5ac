"""Shards, and what engines need without Ray."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from semco.config import configure
from semco.distributed.cluster import RayOptions
from semco.errors import UserError
from semco.experiment.engines.ray_tasks import wait_until_free
from semco.experiment.engines.shards import Shard
from semco.run.folder import RunFolder


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
