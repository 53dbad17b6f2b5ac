"""Runs that share something: a folder, a comparison that is killed, a disk that is full.

Two processes resume one run; a comparison of two runs at a time is killed and repeated; the disk is full while the
outputs of frozen layers are stored. At the end, every run holds the same bits as an undisturbed one.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import torch

from semco.config import Config, configure
from semco.data.storage.chunks import ChunkedFile
from semco.experiment.comparison import Cell, make_cells
from semco.experiment.engines.local import LocalEngine
from semco.experiment.runs import resume, train_or_resume
from torture.attack import Attack, Case, Failure
from torture.kills import STEPS, check_child, compare, exit_code, fork
from torture.originals import small_values, write_data

SENTENCE = "is being trained by another process"


@dataclass(frozen=True)
class Originals:
    """Undisturbed runs: one, those of a comparison, and one with stored outputs of frozen layers."""

    folder: Path
    values: dict[str, Any]
    seconds: float  # of the comparison
    chunks: int  # of the stored outputs

    @property
    def config(self) -> Config:
        return configure(options=self.values)

    @property
    def frozen(self) -> Config:
        return configure(options={**self.values, "model": {"backbone": "wrn-10-1", "tune": "heads"}})

    def cells(self, out: Path) -> list[Cell]:
        return make_cells(["supervised", "fixmatch"], [0], out, self.values)


def prepare(folder: Path) -> Originals:
    torch.set_num_threads(1)
    os.environ["OMP_NUM_THREADS"] = "1"
    os.environ["XDG_CACHE_HOME"] = str(folder / "cache")
    write_data(folder)
    originals = Originals(folder, small_values(folder, STEPS), 0.0, 0)
    train_or_resume(originals.config, folder / "run")
    began = time.monotonic()
    finish(originals.cells(folder / "comparison"))
    seconds = time.monotonic() - began
    train_or_resume(originals.frozen, folder / "frozen")
    stored = (folder / "cache" / "semco" / "features").glob("*/progress.json")
    return Originals(folder, originals.values, seconds, sum(len(json.loads(f.read_text())["rows"]) for f in stored))


def finish(cells: list[Cell]) -> None:
    for outcome in LocalEngine(2).run(cells, lambda _: None):
        if outcome.result is None:
            raise Failure(f"a run of the comparison: {outcome.problem}")


def case(case: Case) -> str:
    os.environ |= {"XDG_CACHE_HOME": str(case.folder / "cache"), "HOME": str(case.folder)}
    way = case.random.choice((two_resumes, two_resumes, full_disk, full_disk, kill_comparison))
    way(case)
    return way.__name__.replace("_", " ")


def two_resumes(case: Case) -> None:
    """Interrupt a run, then resume it twice at once: one process trains, the other one is refused or comes later."""
    run = case.folder / "run"
    first = fork(lambda: ignore(train_or_resume(case.originals.config, run)))
    wait_for(run / "checkpoints", first)
    time.sleep(case.random.uniform(0, 0.3))
    os.kill(first, signal.SIGKILL)
    exit_code(first)
    errors = [case.folder / f"error-{number}.json" for number in range(2)]
    children = [fork(lambda: ignore(resume(run)), error) for error in errors]
    ends = [exit_code(child) for child in children]
    for end, error in zip(ends, errors, strict=True):
        if end != 0 and SENTENCE not in error.read_text():
            check_child(end, error)
    if 0 not in ends:
        raise Failure("both resumes were refused")
    compare(case.originals.folder / "run", run)


def kill_comparison(case: Case) -> None:
    """Kill a comparison at any time; its runs notice, save and end, and the same command finishes them."""
    out = case.folder / "comparison"
    parent = fork(lambda: finish(case.originals.cells(out)))
    time.sleep(case.random.uniform(0.3, 0.95) * case.originals.seconds)
    os.kill(parent, signal.SIGKILL)
    exit_code(parent)
    wait_until_free(case, out)
    finish(case.originals.cells(out))
    for cell in case.originals.cells(out):
        compare(case.originals.folder / "comparison" / cell.run.path.name, cell.run.path, was_stopped=True)


def wait_until_free(case: Case, out: Path) -> None:
    """Wait until no process trains in the folders of the comparison."""
    deadline = time.monotonic() + 60
    for cell in case.originals.cells(out):
        while is_used(cell.run.path):
            if time.monotonic() > deadline:
                raise Failure("a run of a killed comparison goes on")
            time.sleep(0.1)


def is_used(run: Path) -> bool:
    """Return whether a process has a command line with this folder in it; a zombie has none."""
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if str(run).encode() in process.read_bytes().split(b"\0"):
                return True
        except OSError:  # it has just ended
            continue
    return False


def full_disk(case: Case) -> None:
    """Fill the disk at a chunk of the stored outputs; one sentence, and the next attempt ends as if nothing was."""
    run, error = case.folder / "run", case.folder / "error.json"
    full_at = case.random.randrange(case.originals.chunks)
    share = case.random.random()

    def train() -> None:
        original, count = ChunkedFile._write, 0

        def write(file: ChunkedFile, stream: IO[bytes], start: int, rows: Any) -> None:
            nonlocal count
            if count == full_at:
                original(file, stream, start, rows[: int(share * len(rows))])
                raise OSError(errno.ENOSPC, "No space left on device")
            count += 1
            original(file, stream, start, rows)

        ChunkedFile._write = write  # type: ignore[method-assign]
        train_or_resume(case.originals.frozen, run)

    if exit_code(fork(train, error)) == 0:
        raise Failure("a full disk was not noticed")
    found = json.loads(error.read_text())
    if not found["kind"].startswith("UserError") or "No space left on device" not in found["detail"]:
        raise Failure(f"a full disk: {found['kind']}", found["detail"])
    check_child(exit_code(fork(lambda: ignore(train_or_resume(case.originals.frozen, run)), error)), error)
    compare(case.originals.folder / "frozen", run)
    shutil.rmtree(case.folder / "cache")


def wait_for(folder: Path, process: int) -> None:
    """Wait until there is a checkpoint."""
    while not list(folder.glob("step-*")):
        if os.waitpid(process, os.WNOHANG)[0]:
            raise Failure("the run ended before it could be killed")
        time.sleep(0.005)


def ignore(_result: object) -> None:
    """Let a child return nothing."""


ATTACK = Attack("rivals", cases=40, minutes=3, case=case, prepare=prepare, limit=150, memory=None)
