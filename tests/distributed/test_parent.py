"""Processes of a run end when the one that started them was killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from semco.config import configure, flat_fields, merge
from semco.distributed import launch
from semco.distributed.processes import Processes, process_group
from semco.run.folder import RunFolder
from semco.training.signals import catch_signals
from tests.forking import stands_for, start_semco

pytestmark = pytest.mark.timeout(600)  # processes that import torch, on a busy machine


@pytest.fixture
def exits(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """The codes with which this process would have ended."""
    codes: list[int] = []
    monkeypatch.setattr(launch.os, "_exit", codes.append)
    monkeypatch.setattr(launch, "GRACE", 0.0)
    monkeypatch.setattr(launch, "INTERVAL", 0.0)
    monkeypatch.setattr(launch, "_exit_later", lambda _: None)
    yield codes
    for thread in watchers():
        thread.join(60)


def watchers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "_watch"]


def test_the_death_of_the_parent_is_a_request_to_stop(exits: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    death = threading.Event()
    monkeypatch.setattr(launch.multiprocessing, "parent_process", lambda: SimpleNamespace(join=death.wait))
    with catch_signals() as stop:
        launch.end_with_parent()
        launch.end_with_parent()
        (watcher,) = watchers()
        assert stop.number is None
        death.set()
        watcher.join(60)
        assert stop.number == signal.SIGTERM
    assert exits == [143]  # if it has not ended by itself in time


def test_a_process_that_torchrun_started_looks_at_its_parent(exits: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = iter([7, 7, 7, 1])
    monkeypatch.setattr(launch.os, "getppid", lambda: next(numbers))
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "1")
    with catch_signals() as stop:
        launch.end_with_parent()
        for thread in watchers():
            thread.join(60)
        assert stop.number == signal.SIGTERM
    assert exits == [143]


@pytest.mark.parametrize(("is_alive", "codes"), [(True, []), (False, [143])])
def test_a_worker_without_a_parent_ends_at_once(
    is_alive: bool, codes: list[int], exits: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = SimpleNamespace(is_alive=lambda: is_alive)
    monkeypatch.setattr(launch.multiprocessing, "parent_process", lambda: found)
    launch.exit_without_parent(143)
    assert exits == codes


def test_a_process_that_hangs_while_python_ends_is_ended() -> None:
    code = (
        "import atexit, threading\n"
        "from semco.distributed import launch\n"
        "atexit.register(threading.Event().wait)\n"
        "launch._exit_later(0.5)"
    )
    ended = subprocess.run([sys.executable, "-c", code], timeout=240, capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (1, "")


def test_the_shell_of_a_background_process_may_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TORCHELASTIC_RUN_ID", raising=False)
    launch.end_with_parent()
    assert watchers() == []


def test_a_command_ends_with_the_process_that_its_environment_names(
    exits: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(launch.PARENT, "7")
    monkeypatch.setattr(launch.os, "getppid", lambda: 1)  # it had died before
    with catch_signals() as stop, process_group(Processes()):
        for thread in watchers():
            thread.join(60)
        assert stop.number == signal.SIGTERM
    assert exits == [143]


def test_the_runs_of_a_killed_comparison_save_and_end(tiny_values: dict[str, Any], tmp_path: Path) -> None:
    run = tmp_path / "out" / "supervised-seed0"
    training = {"steps": 100_000, "log_every": 1}
    fields = flat_fields(merge(tiny_values, {"training": training}))
    command = [
        "compare",
        fields.pop("data.source"),
        "--methods",
        "supervised",
        "--seeds",
        "0",
        "--out",
        str(run.parent),
    ]
    for name, value in fields.items():
        command += ["--set", f"{name}={json.dumps(value)}"]
    workers, _ = kill_command(command, run)
    assert workers
    assert list((run / "checkpoints").glob("step-*.safetensors"))
    with RunFolder(run).lock():
        pass


def list_processes() -> list[tuple[int, int]]:
    """Return id and parent of the processes of this machine that have not ended."""
    listed = subprocess.run(["ps", "-A", "-o", "pid=,ppid=,stat="], capture_output=True, text=True, check=True)
    lines = [line.split() for line in listed.stdout.splitlines()]
    return [(int(pid), int(parent)) for pid, parent, state in lines if state[0] not in "ZX"]


def descendants(pid: int) -> set[int]:
    processes, found = list_processes(), [pid]
    for each in found:  # grows
        found += [child for child, parent in processes if parent == each]
        found += [pid for pid in [stands_for(each)] if pid is not None]
    return set(found[1:])


def alive(pids: set[int]) -> set[int]:
    """Those that still run."""
    return {pid for pid, _ in list_processes() if pid in pids}


def kill_command(command: list[str], run: Path) -> tuple[set[int], str]:
    """Start a command, kill it when it trains, and return its descendants, which have ended, and its errors."""
    started = start_semco(*command)
    while not (run / "metrics.jsonl").exists():
        assert started.poll() is None, started.communicate()
        time.sleep(0.05)
    workers = descendants(started.pid)
    started.kill()
    deadline = time.monotonic() + 240
    while alive(workers) and time.monotonic() < deadline:
        time.sleep(0.05)
    left = alive(workers)
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    errors = started.communicate()[1]
    assert not left
    return workers, errors


def test_workers_of_a_killed_command_save_and_end(tiny_values: dict[str, Any], tmp_path: Path) -> None:
    file, run = tmp_path / "config.yaml", tmp_path / "run"
    training = {"steps": 100_000, "log_every": 1}
    file.write_text(configure(options=merge(tiny_values, {"training": training})).to_yaml())
    command = ["train", "--config", str(file), "--out", str(run), "--processes", "2"]
    workers, errors = kill_command(command, run)
    assert len(workers) >= 2
    assert "Traceback" not in errors
    assert "Warning" not in errors
    assert list((run / "checkpoints").glob("step-*.safetensors"))
    with RunFolder(run).lock():  # nobody trains there any more
        pass
