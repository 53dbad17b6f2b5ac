"""Runs cells as tasks of Ray, one per run folder, on this machine or on a cluster.

A run resumes from its checkpoint bit for bit, so a task that Ray restarts continues the same run.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from semco.config import Config
from semco.distributed.cluster import RayOptions, check_shared, connect, last_line
from semco.distributed.launch import GRACE
from semco.errors import UserError
from semco.experiment.comparison import Cell, Outcome
from semco.experiment.engines import OnBegin, OnEnd
from semco.experiment.runs import train_or_resume
from semco.files import write_text
from semco.run.folder import RunFolder
from semco.run.result import RunResult
from semco.training.signals import Stopped, catch_signals

# How often Ray restarts a task whose process or machine has died.
RETRIES = 3
# Seconds between two checks of the tasks, and for how long a lost process may still hold the lock of its run.
INTERVAL, HELD = 0.5, 60.0


@dataclass(frozen=True)
class RayEngine:
    """Runs as many cells at a time as Ray has resources for."""

    options: RayOptions
    say: Callable[[str], None] = lambda _text: None

    def run(
        self, cells: Sequence[Cell], on_end: OnEnd, on_begin: OnBegin = lambda _number, _cell: None
    ) -> list[Outcome]:
        outcomes = {
            number: Outcome(cell, cell.run.result()) for number, cell in enumerate(cells) if cell.run.is_whole()
        }
        for outcome in outcomes.values():
            on_end(outcome)
        waiting = {number: cell for number, cell in enumerate(cells) if number not in outcomes}
        if waiting:
            with connect(self.options) as ray:
                machines = check_shared(ray, cells[0].run.path.parent)
                self.say(f"{len(waiting)} run(s) on Ray: {_describe(ray, machines)}")
                outcomes |= _Tasks(ray, self.options, waiting, on_end, on_begin).finish()
        return [outcomes[number] for number in range(len(cells))]


def _describe(ray: Any, machines: int) -> str:
    found = ray.cluster_resources()
    return f"{machines} machine(s), {found.get('CPU', 0):g} CPUs, {found.get('GPU', 0):g} GPUs"


class _Tasks:
    """The tasks that have not ended, by the number of their cell."""

    def __init__(self, ray: Any, options: RayOptions, cells: dict[int, Cell], on_end: OnEnd, on_begin: OnBegin) -> None:
        self._ray, self._cells, self._on_end, self._on_begin = ray, cells, on_end, on_begin
        self._before = {number: _written(cell) for number, cell in cells.items()}
        task = ray.remote(max_retries=RETRIES, **options.resources)(train_cell)
        here = str(Path.cwd())
        self._running = {
            task.remote(cell.config.to_yaml(), str(cell.run.path), here): number for number, cell in cells.items()
        }

    def finish(self) -> dict[int, Outcome]:
        """Wait until all tasks have ended and return their outcomes; each is reported when its task ends."""
        outcomes = {}
        with catch_signals() as stop:
            while self._running and stop.number is None:
                ready, _ = self._ray.wait(list(self._running), timeout=INTERVAL)
                self._report_begun()
                for reference in ready:
                    number = self._running.pop(reference)
                    outcomes[number] = self._outcome(reference, self._cells[number])
                    self._on_end(outcomes[number])
            if stop.number is not None:
                self._cancel()
                raise Stopped(stop.number, "; what was started is saved")
        return outcomes

    def _report_begun(self) -> None:
        for number in [number for number, before in self._before.items() if _written(self._cells[number]) != before]:
            del self._before[number]
            self._on_begin(number + 1, self._cells[number])

    def _outcome(self, reference: Any, cell: Cell) -> Outcome:
        try:
            found: RunResult | str = self._ray.get(reference)
        except self._ray.exceptions.RayError as error:
            found = last_line(error)
        return Outcome(cell, None, found) if isinstance(found, str) else Outcome(cell, found)

    def _cancel(self) -> None:
        """Interrupt the runs, as Ctrl-C does, and wait until they are saved."""
        for reference in self._running:
            self._ray.cancel(reference)
        self._ray.wait(list(self._running), num_returns=len(self._running), timeout=GRACE)


def _written(cell: Cell) -> int | None:
    """Return the time at which the task of a cell began: it writes the request first."""
    return cell.request_file.stat().st_mtime_ns if cell.request_file.exists() else None


def train_cell(request: str, path: str, here: str) -> RunResult | str:
    """Train or resume a run in a process of Ray; return its result, or the sentence that says why there is none."""
    os.chdir(here)
    cell = Cell("", 0, Config.from_yaml(request), RunFolder(Path(path)))
    write_text(cell.request_file, request)
    try:
        wait_until_free(cell.run)
        return train_or_resume(cell.config, cell.run.path)
    except UserError as error:
        return f"error: {error}"
    except Stopped as stopped:
        if stopped.number == signal.SIGINT:  # the comparison was stopped
            raise
        os._exit(stopped.exit_code)  # this machine shuts down and the run is saved: Ray restarts the task elsewhere


def wait_until_free(run: RunFolder, seconds: float = HELD) -> None:
    """Wait until no other process trains in a folder: a process that Ray has given up may take a while to end."""
    deadline = time.monotonic() + seconds
    while run.path.is_dir():
        try:
            with run.lock():
                return
        except UserError:
            if time.monotonic() > deadline:
                raise
        time.sleep(INTERVAL)
