"""Kills: a run that is killed again and again ends with the same bits as one that was not.

The process is killed at a file operation of the run, shortly after one, or at any time.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random

import numpy as np
import torch
from safetensors.numpy import load_file

from semco.config import Config, configure
from semco.experiment.runs import train_or_resume
from torture.attack import Attack, Case, Failure, kind_of
from torture.originals import small_values, write_data

STEPS = 40
FILE_OPERATIONS = frozenset({"open", "os.rename", "os.link", "os.remove", "os.mkdir", "os.chmod", "os.truncate"})
SAME_BYTES = (
    "config.yaml", "split.json", "labels.json", "evaluation.json", "pseudo_labels.parquet", "model/model.json",
    "model/model.safetensors", "model/labels.safetensors",
)  # fmt: skip


@dataclass(frozen=True)
class Originals:
    """An undisturbed run: its configuration, folder, duration and number of file operations."""

    config: Config
    run: Path
    seconds: float
    operations: int


def prepare(folder: Path) -> Originals:
    torch.set_num_threads(1)
    write_data(folder)
    config = configure(options=small_values(folder, STEPS))
    train_or_resume(config, folder / "first")  # compiles what children then inherit
    counted = folder / "operations.txt"
    began = time.monotonic()
    pid = fork(lambda: train(config, folder / "run", on_operation=lambda n: counted.write_text(str(n))))
    assert exit_code(pid) == 0
    originals = Originals(config, folder / "run", time.monotonic() - began, int(counted.read_text()))
    compare(folder / "first", folder / "run")
    return originals


def case(case: Case) -> str:
    run, wanted, kills = case.folder / "run", case.random.choice((1, 1, 2, 3)), 0
    for attempt in range(10):
        kills += kill_once(case.random, case.originals, run, case.folder / "error.json", earlier=2**attempt)
        if kills == wanted:
            break
        if kills == 0:
            shutil.rmtree(run)  # it had ended before it could be killed: once more, and earlier
    pid = fork(lambda: train(case.originals.config, run), case.folder / "error.json")
    check_child(exit_code(pid), case.folder / "error.json")
    compare(case.originals.run, run)
    return f"with {kills} kill{'s' if kills > 1 else ''}"


def kill_once(random: Random, originals: Originals, run: Path, errors: Path, earlier: int) -> bool:
    """Train or resume in a child and kill it; return False if it ended before."""
    way, operation = random.choice(("at", "after", "time")), random.randint(1, max(1, originals.operations // earlier))
    delay = random.uniform(0, 0.005 if way == "after" else 0.95 * originals.seconds / earlier)
    reached, reach = os.pipe()

    def on_operation(number: int) -> None:
        if number == operation and way == "at":
            os.kill(os.getpid(), signal.SIGKILL)
        if number == operation and way == "after":
            os.write(reach, b"x")

    pid = fork(lambda: train(originals.config, run, on_operation), errors)
    os.close(reach)
    if way == "after":
        os.read(reached, 1)  # returns at the operation, or when the child ends
    if way != "at":
        time.sleep(delay)
        os.kill(pid, signal.SIGKILL)
    os.close(reached)
    code = exit_code(pid)
    if code != -signal.SIGKILL:
        check_child(code, errors)
    return code == -signal.SIGKILL


def fork(work: Callable[[], None], errors: Path | None = None) -> int:
    """Do the work in a child process and return its number; an exception is written to ``errors``."""
    pid = os.fork()
    if pid:
        return pid
    try:
        work()
        os._exit(0)
    except BaseException as error:
        if errors is not None:
            text = "".join(traceback.format_exception(error))
            errors.write_text(json.dumps({"kind": kind_of(error), "detail": text}))
        os._exit(1)


def exit_code(pid: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def check_child(code: int, errors: Path) -> None:
    if code != 0:
        error = json.loads(errors.read_text()) if errors.exists() else {"kind": f"exit code {code}", "detail": ""}
        raise Failure(f"after a kill: {error['kind']}", error["detail"])


def train(config: Config, run: Path, on_operation: Callable[[int], None] | None = None) -> None:
    """Train or resume a run; ``on_operation`` is called at each file operation in its folder with its number."""
    count, inside, is_calling = 0, str(run), False

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        nonlocal count, is_calling
        if event not in FILE_OPERATIONS or is_calling or not str(arguments[0]).startswith(inside):
            return
        assert on_operation is not None
        count, is_calling = count + 1, True
        on_operation(count)
        is_calling = False

    if on_operation is not None:
        sys.addaudithook(hook)  # it stays until the child ends
    train_or_resume(config, run)


def compare(whole: Path, run: Path, *, was_stopped: bool = False) -> None:
    """Raise a failure unless two run folders hold the same, apart from the clock and their own path.

    A run that ``was_stopped``, not killed, has saved itself at another step; its last checkpoint is the same.
    """
    expected, found = ({str(path.relative_to(folder)) for path in folder.rglob("*")} for folder in (whole, run))
    if was_stopped:
        expected, found = ({name for name in names if "step-" not in name} for names in (expected, found))
    if missing := expected - found:
        raise Failure("after a kill: files are missing", ", ".join(sorted(missing)))
    for name in SAME_BYTES:
        if (whole / name).read_bytes() != (run / name).read_bytes():
            raise Failure(f"after a kill: another {name}", f"{whole / name} and {run / name} differ")
    for name, read in (("metrics.jsonl", metrics), ("result.json", result), ("checkpoint", last_checkpoint)):
        if read(whole) != read(run):
            raise Failure(f"after a kill: another {name}", f"those of {whole} and {run} differ")
    if extra := found - expected:
        raise Failure("after a kill: temporary files are left", ", ".join(sorted(extra)))


def metrics(run: Path) -> list[dict[str, object]]:
    """Return the lines of the metrics without the clock."""
    lines = (run / "metrics.jsonl").read_text().splitlines()
    return [{key: value for key, value in json.loads(line).items() if key != "seconds"} for line in lines]


def result(run: Path) -> dict[str, object]:
    """Return the result without the clock, the path and the checksum, which depends on both."""
    return {**json.loads((run / "result.json").read_text()), "seconds": None, "run": None, "digest": None}


def last_checkpoint(run: Path) -> dict[str, bytes]:
    tensors = load_file(max((run / "checkpoints").glob("step-*")))
    return {name: np.ascontiguousarray(tensor).tobytes() for name, tensor in tensors.items()}


ATTACK = Attack("kills", cases=100, minutes=6, case=case, prepare=prepare, limit=90, memory=None)
