"""A process that trains step by step, at its parent's word, and says what each step took.

A process for each way of training, so that each has a peak memory of its own; one step of each in turn, so that what
else the machine does falls on all alike.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from semco.bench.rehearsal import Setting, rehearse
from semco.distributed.processes import Processes, process_group
from semco.errors import UserError
from semco.training.loop import Silent

_CODE = "import sys; from semco.bench.worker import serve; serve(sys.argv[1], sys.argv[2])"


@dataclass(frozen=True)
class Took:
    """One step: seconds by the clock and on the cores, the loss, and the peak memory of the process so far."""

    wall: float
    cpu: float
    loss: float
    peak_mb: float
    base_mb: float  # what the process had before it made anything


class Conductor(Silent):
    """Ends each step by saying what it took, and begins the next when it is told to."""

    def __init__(self, base_mb: float) -> None:
        self._base_mb = base_mb
        self._begun = _clocks()

    def on_line(self, line: Mapping[str, float | None]) -> None:
        wall, cpu = (now - then for now, then in zip(_clocks(), self._begun, strict=True))
        took = Took(wall, cpu, float(line["loss"] or 0.0), peak_mb(), self._base_mb)
        sys.stdout.write(json.dumps(asdict(took)) + "\n")
        sys.stdout.flush()
        if not sys.stdin.readline():
            raise SystemExit(0)
        self._begun = _clocks()


def serve(text: str, folder: str) -> None:
    """In the worker: train ``text``, a setting in JSON, for as long as the parent asks for steps."""
    import torch

    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    processes = Processes.from_environment()
    setting, base = Setting(**json.loads(text)), peak_mb()
    with process_group(processes):
        rehearse(setting, Path(folder) / "run", Conductor(base), processes).run()


def peak_mb() -> float:
    """Peak memory of this process in megabytes."""
    status = Path("/proc/self/status")
    if status.exists():  # Linux's getrusage would begin with what the parent had
        (line,) = (line for line in status.read_text().splitlines() if line.startswith("VmHWM:"))
        return int(line.split()[1]) / 2**10
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 2**10)  # macOS counts bytes


def _clocks() -> tuple[float, float]:
    """Seconds by the clock and on the cores, those of finished child processes (compilers) included."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return time.perf_counter(), sum(each.ru_utime + each.ru_stime for each in used)


def measuring(threads: int) -> dict[str, str]:
    """The environment of a process that measures: waiting threads sleep, so that time on the cores is time at work."""
    return {**os.environ, "OMP_WAIT_POLICY": "passive", "OMP_NUM_THREADS": str(threads)}


class Worker:
    """A way of training as its parent sees it."""

    def __init__(self, process: subprocess.Popen[str], errors: Path) -> None:
        self._process, self._errors = process, errors
        self.asked = True  # it begins its first step unasked

    def ask(self) -> None:
        assert self._process.stdin is not None
        if not self.asked:
            self._process.stdin.write("\n")
            self._process.stdin.flush()
        self.asked = True

    def answer(self) -> Took:
        """What the step that was asked for took."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            said = self._errors.read_text(encoding="utf-8").strip().splitlines()
            reason = said[-1] if said else f"exit code {self._process.wait()}"
            raise UserError(f"a measurement ended early: {reason}.")
        self.asked = False
        return Took(**json.loads(line))

    def step(self) -> Took:
        self.ask()
        return self.answer()


@contextmanager
def worker(setting: Setting, threads: int, environment: Mapping[str, str] | None = None) -> Iterator[Worker]:
    """A worker that lives as long as the block, with a folder and a compiler's cache of its own."""
    with tempfile.TemporaryDirectory() as folder:
        own_cache = {"TORCHINDUCTOR_CACHE_DIR": f"{folder}/compiled"}
        variables = {**measuring(threads), **own_cache, **(environment or {})}
        errors = Path(folder) / "errors.txt"
        command = [sys.executable, "-c", _CODE, json.dumps(asdict(setting)), folder]
        with errors.open("w") as stream:
            process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stream, text=True, env=variables
            )
        try:
            yield Worker(process, errors)
        finally:
            _let_go(process)


def _let_go(process: subprocess.Popen[str], patience: float = 20.0) -> None:
    """Closed input ends a worker that waits; one that is in the middle of a step is ended."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.close()
    process.stdout.close()
    try:
        process.wait(patience)
    except subprocess.TimeoutExpired:
        process.terminate()
        process.wait()


def best_of(steps: list[Took]) -> dict[str, float]:
    """The least time of either clock, the usual time by the clock on the wall, and the peak memory."""
    return {
        "wall_s": round(min(step.wall for step in steps), 4),
        "median_wall_s": round(statistics.median(step.wall for step in steps), 4),
        "cpu_s": round(min(step.cpu for step in steps), 4),
        "memory_mb": round(max(step.peak_mb - step.base_mb for step in steps), 1),
    }


def take_turns(settings: Mapping[str, Setting], repeats: int, threads: int) -> dict[str, dict[str, Any]]:
    """``repeats`` steps of every setting in turn, after one to warm up; the best of each, and its first step."""
    with ExitStack() as stack:
        workers, first = {}, {}
        for name, setting in settings.items():
            workers[name] = stack.enter_context(worker(setting, threads))
            first[name] = workers[name].step()  # one after the other: the first step may compile
        turns = [{name: one.step() for name, one in workers.items()} for _ in range(repeats)]
    measured = {name: best_of([turn[name] for turn in turns]) for name in settings}
    return {
        name: {**best, "first_wall_s": first[name].wall, "first_cpu_s": first[name].cpu, "loss": first[name].loss}
        for name, best in measured.items()
    }
