"""Worker processes that train one step at a time, on request, and report the time and memory of each step.

Each setting has its own process, so that its peak memory can be measured. The processes take turns step by step, so
that other load on the machine affects all of them alike.
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
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.child import child_failed, with_benchmarks
from benchmarks.synthetic import Setting, build_trainer
from semco.distributed.processes import Processes, process_group
from semco.training.observer import MetricsLine, NullObserver

_WORKER_CODE = "import sys; from benchmarks.worker import run_worker; run_worker(sys.argv[1], sys.argv[2])"


@dataclass(frozen=True)
class StepTimes:
    """Seconds of one step, wall-clock and CPU time, its loss, and the peak memory of the process so far."""

    wall: float
    cpu: float
    loss: float
    peak_mb: float
    base_mb: float  # peak memory before the trainer was built


class StepReporter(NullObserver):
    """Writes a line with the `StepTimes` after each step, and waits for a line before the next step."""

    def __init__(self, base_mb: float) -> None:
        self._base_mb = base_mb
        self._start = _read_clocks()

    def on_line(self, line: MetricsLine) -> None:
        wall, cpu = (now - then for now, then in zip(_read_clocks(), self._start, strict=True))
        times = StepTimes(wall, cpu, float(line["loss"] or 0.0), peak_mb(), self._base_mb)
        sys.stdout.write(json.dumps(asdict(times)) + "\n")
        sys.stdout.flush()
        if not sys.stdin.readline():
            raise SystemExit(0)
        self._start = _read_clocks()


def run_worker(setting_json: str, folder: str) -> None:
    """Train a setting, given as JSON, for as long as the parent process asks for steps."""
    import torch

    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    processes = Processes.from_environment()
    setting, base = Setting(**json.loads(setting_json)), peak_mb()
    with process_group(processes):
        build_trainer(setting, Path(folder) / "run", StepReporter(base), processes).run()


def peak_mb() -> float:
    """Return the peak memory of this process in megabytes."""
    status = Path("/proc/self/status")
    if status.exists():  # on Linux, getrusage would start from the peak of the parent
        (line,) = (line for line in status.read_text().splitlines() if line.startswith("VmHWM:"))
        return int(line.split()[1]) / 2**10
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 2**10)  # macOS counts bytes


def _read_clocks() -> tuple[float, float]:
    """Return wall-clock and CPU seconds, including those of finished child processes (compilers)."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return time.perf_counter(), sum(usage.ru_utime + usage.ru_stime for usage in usages)


def worker_environment(threads: int) -> dict[str, str]:
    """Return environment variables that make waiting threads sleep, so that they use no CPU time."""
    return with_benchmarks({**os.environ, "OMP_WAIT_POLICY": "passive", "OMP_NUM_THREADS": str(threads)})


class Worker:
    """A worker process as its parent sees it."""

    def __init__(self, process: subprocess.Popen[str], errors: Path) -> None:
        self._process, self._errors = process, errors
        self._is_stepping = True  # the first step starts without a request

    def start_step(self) -> None:
        """Ask for a step, unless one has been started already."""
        assert self._process.stdin is not None
        if not self._is_stepping:
            self._process.stdin.write("\n")
            self._process.stdin.flush()
        self._is_stepping = True

    def finish_step(self) -> StepTimes:
        """Wait for the end of the step and return its times."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise child_failed("step", self._errors.read_text(encoding="utf-8"), self._process.wait())
        self._is_stepping = False
        return StepTimes(**json.loads(line))

    def step(self) -> StepTimes:
        self.start_step()
        return self.finish_step()


@contextmanager
def start_worker(setting: Setting, threads: int, environment: Mapping[str, str] | None = None) -> Iterator[Worker]:
    """Start a worker with its own folder and compiler cache, and stop it when the block ends."""
    with tempfile.TemporaryDirectory() as folder:
        cache = {"TORCHINDUCTOR_CACHE_DIR": f"{folder}/compiled"}
        variables = {**worker_environment(threads), **cache, **(environment or {})}
        errors = Path(folder) / "errors.txt"
        command = [sys.executable, "-c", _WORKER_CODE, json.dumps(asdict(setting)), folder]
        with errors.open("w") as stream:
            process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stream, text=True, env=variables
            )
        try:
            yield Worker(process, errors)
        finally:
            _stop(process)


def _stop(process: subprocess.Popen[str], timeout: float = 20.0) -> None:
    """Close the input, which ends a waiting worker; terminate a worker that is still in a step after ``timeout``."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.close()
    process.stdout.close()
    try:
        process.wait(timeout)
    except subprocess.TimeoutExpired:
        process.terminate()
        process.wait()


def summarise(steps: Sequence[StepTimes]) -> dict[str, float]:
    """Return the best and the median of wall-clock and CPU time, and the growth of the peak memory."""
    return {
        "wall_s": round(min(step.wall for step in steps), 4),
        "median_wall_s": round(statistics.median(step.wall for step in steps), 4),
        "cpu_s": round(min(step.cpu for step in steps), 4),
        "median_cpu_s": round(statistics.median(step.cpu for step in steps), 4),
        "memory_mb": round(max(step.peak_mb - step.base_mb for step in steps), 1),
    }


def measure_in_turns(settings: Mapping[str, Setting], repeats: int, threads: int) -> dict[str, dict[str, Any]]:
    """Measure ``repeats`` steps of every setting, in turns, after a first step that is reported separately."""
    with ExitStack() as stack:
        workers, first = {}, {}
        for name, setting in settings.items():
            workers[name] = stack.enter_context(start_worker(setting, threads))
            first[name] = workers[name].step()  # not at the same time: the first step may compile
        rounds = [{name: worker.step() for name, worker in workers.items()} for _ in range(repeats)]
    summaries = {name: summarise([steps[name] for steps in rounds]) for name in settings}
    return {
        name: {**summary, "first_wall_s": first[name].wall, "first_cpu_s": first[name].cpu, "loss": first[name].loss}
        for name, summary in summaries.items()
    }
