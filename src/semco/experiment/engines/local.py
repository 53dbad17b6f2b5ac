"""Runs cells in processes on this machine."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

from semco.distributed.launch import parent_environment
from semco.experiment.comparison import Cell, Outcome
from semco.experiment.engines import OnBegin, OnEnd
from semco.files import write_text
from semco.training.signals import Stopped, StopRequest, catch_signals


@dataclass(frozen=True)
class LocalEngine:
    """Runs ``jobs`` cells at a time, each as a command."""

    jobs: int = 1

    def run(
        self, cells: Sequence[Cell], on_end: OnEnd, on_begin: OnBegin = lambda _number, _cell: None
    ) -> list[Outcome]:
        with catch_signals() as stop, ThreadPoolExecutor(max_workers=self.jobs) as workers:

            def work(number: int, cell: Cell) -> Outcome:
                outcome = _run_cell(cell, self.jobs, stop, partial(on_begin, number, cell))
                if stop.number is None:
                    on_end(outcome)
                return outcome

            outcomes = list(workers.map(work, range(1, len(cells) + 1), cells))
        if stop.number is not None:
            raise Stopped(stop.number, "; what was started is saved")
        return outcomes


def _run_cell(cell: Cell, jobs: int, stop: StopRequest, on_begin: Callable[[], None]) -> Outcome:
    if not cell.run.is_whole():  # it may have been killed after its result and before its report
        if stop.number is not None:
            return Outcome(cell, None, "not started")
        on_begin()
        threads = max(1, (os.cpu_count() or 1) // jobs)
        environment = {"OMP_NUM_THREADS": str(threads), **os.environ, **parent_environment()}
        code, errors = _run_command(_command(cell), environment, stop)
        if code != 0:
            lines = [line for line in errors.splitlines() if line.strip()]
            return Outcome(cell, None, lines[-1] if lines else f"exit code {code}")
    return Outcome(cell, cell.run.result())


def _run_command(command: Sequence[str], environment: Mapping[str, str], stop: StopRequest) -> tuple[int, str]:
    """Return the exit code and the error output of a command; a request to stop terminates it."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=environment)
    is_terminated = False
    while True:
        try:
            _, errors = process.communicate(timeout=0.2)
            return process.returncode, errors
        except subprocess.TimeoutExpired:
            if stop.number is not None and not is_terminated:
                process.terminate()
                is_terminated = True


def _command(cell: Cell) -> list[str]:
    semco = [sys.executable, "-m", "semco"]
    if cell.run.config_file.exists():
        return [*semco, "resume", str(cell.run.path)]
    write_text(cell.request_file, cell.config.to_yaml())
    return [*semco, "train", "--config", str(cell.request_file), "--out", str(cell.run.path)]
