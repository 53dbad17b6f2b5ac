"""Runs cases in worker processes, which are forked from a process that has imported everything.

The parent kills a worker whose case takes too long; a worker that dies by itself counts as a failure too.
"""

from __future__ import annotations

import faulthandler
import multiprocessing
import os
import re
import resource
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from torture.attack import PACKAGE, Attack, Case, Outcome, case_random, outcome_of

LARGEST_FILE = 1 << 30  # bytes that a case may write to one file
SHOWN = 4000  # characters of a traceback that are kept
Listing = dict[str, tuple[int, int, int]]


def run_cases(
    attack: Attack, originals: Any, root: Path, seed: int, numbers: Iterator[int], deadline: float, jobs: int
) -> Iterator[Outcome]:
    """Yield the outcome of each case, in the order in which they end; no case is started after ``deadline``."""
    workers = [Worker(attack, originals, root, f"worker-{i}", seed) for i in range(jobs)]
    try:
        while True:
            for worker in workers:
                if worker.number is None and time.monotonic() < deadline and (n := next(numbers, None)) is not None:
                    worker.begin(n)
            busy = [worker for worker in workers if worker.number is not None]
            if not busy:
                return
            wait([worker.connection for worker in busy], timeout=0.2)
            yield from (outcome for worker in busy if (outcome := worker.poll()) is not None)
    finally:
        for worker in workers:
            worker.stop()


class Worker:
    """A process that runs one case at a time in its own folder."""

    def __init__(self, attack: Attack, originals: Any, root: Path, name: str, seed: int) -> None:
        self._attack, self._originals, self._root, self._seed = attack, originals, root / name, seed
        self._context = multiprocessing.get_context("fork")
        self.number: int | None = None
        self._start()

    def _start(self) -> None:
        self.connection, theirs = self._context.Pipe()
        self._process = self._context.Process(
            target=serve, args=(self._attack, self._originals, self._root, theirs, self._seed)
        )
        self._process.start()
        theirs.close()

    def begin(self, number: int) -> None:
        self.number, self._began = number, time.monotonic()
        self.connection.send(number)

    def poll(self) -> Outcome | None:
        """Return the outcome of the case if it has ended; a worker that hangs or died is replaced."""
        assert self.number is not None
        outcome: Outcome | None = None
        if self.connection.poll():
            try:
                outcome = self.connection.recv()
            except (EOFError, ConnectionError):
                self._process.join()
                outcome = Outcome(self.number, "failed", died(self._process.exitcode), self._trace())
        elif time.monotonic() - self._began > self._attack.limit + 1:
            trace = self._trace()
            outcome = Outcome(self.number, "failed", f"hang in {place_of_hang(trace)}", trace)
        if outcome is None:
            return None
        self.number = None
        if outcome.failure is not None and (outcome.failure.startswith("hang") or not self._process.is_alive()):
            self.stop()
            self._start()
        return outcome

    def stop(self) -> None:
        """End the process and those that it started."""
        self.connection.close()
        if self._process.is_alive():
            kill_group(self._process.pid)
        self._process.join()

    def _trace(self) -> str:
        file = self._root / "trace.txt"
        return file.read_text(errors="replace")[:SHOWN] if file.exists() else ""


def kill_group(pid: int | None) -> None:
    assert pid is not None
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:  # it has not made its group yet, or has just ended
        os.kill(pid, signal.SIGKILL)


def died(code: int | None) -> str:
    return f"the process died of {signal.Signals(-code).name}" if code and code < 0 else f"the process exited ({code})"


def place_of_hang(trace: str) -> str:
    """Return the innermost function of the package in a dump of all threads."""
    frame = re.search(rf'{re.escape(PACKAGE)}(.+?)", line \d+ in (\S+)', trace)
    return f"{frame[1]}:{frame[2]}" if frame else "an unknown place"


def serve(attack: Attack, originals: Any, root: Path, connection: Connection, seed: int) -> None:
    """Run the cases whose numbers arrive until the connection closes."""
    os.setpgid(0, 0)
    root.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(root / "outside", ignore_errors=True)
    for name in ("outside", "home"):
        (root / name).mkdir(exist_ok=True)
    (root / "outside" / "victim.txt").write_text("not to be touched\n")
    os.environ |= {"HOME": str(root / "home"), "TMPDIR": str(root / "case")}
    tempfile.tempdir = None  # so that TMPDIR is read again
    for stream in (1, 2):  # image libraries print warnings
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
    limit_resources(attack.memory)
    with (root / "trace.txt").open("w") as trace:
        while True:
            try:
                number = connection.recv()
            except EOFError:
                return
            trace.seek(0)
            trace.truncate()
            faulthandler.enable(trace)
            faulthandler.dump_traceback_later(attack.limit, file=trace)
            outcome = attempt(attack, originals, root, seed, number)
            faulthandler.cancel_dump_traceback_later()
            connection.send(outcome)


def limit_resources(memory: int | None) -> None:
    """Limit the memory, counted from now, and the size of files; write no core files."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (LARGEST_FILE, LARGEST_FILE))
    if memory is not None:
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + memory, used + memory))


def attempt(attack: Attack, originals: Any, root: Path, seed: int, number: int) -> Outcome:
    """Run one case in an empty folder and check that it changed nothing else."""
    folder = root / "case"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    os.chdir(folder)
    watched = (root / "outside", root / "home", root.parent / "originals")
    before = listing(watched)
    case = Case(case_random(seed, attack.name, number), folder, root / "outside", originals)
    outcome = outcome_of(attack, number, case)
    changed = sorted({name for name, _ in before.items() ^ listing(watched).items()})
    if changed and outcome.failure is None:
        shutil.rmtree(root / "outside")
        (root / "outside").mkdir()
        (root / "outside" / "victim.txt").write_text("not to be touched\n")
        return Outcome(number, "failed", "wrote outside its folder", "\n".join(changed))
    return outcome


def listing(folders: tuple[Path, ...]) -> Listing:
    """Return size, time and mode of everything below the folders."""
    found: Listing = {}
    for folder in folders:
        for parent, folders_below, files in os.walk(folder):
            for name in (*folders_below, *files):
                path = os.path.join(parent, name)  # noqa: PTH118 (ten thousand cases: pathlib is slow)
                status = os.lstat(path)
                found[path] = (status.st_size, status.st_mtime_ns, status.st_mode)
    return found
