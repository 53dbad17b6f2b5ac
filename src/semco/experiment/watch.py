"""Follow a run that another process trains, from the files of its folder."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

from semco.run.folder import RunFolder
from semco.training.observer import MetricsLine, Observer

SECONDS = 1.0


def new_lines(run: RunFolder, after: int) -> Iterator[MetricsLine]:
    """Yield the lines of metrics after a step; a resumed run may write some of them again."""
    for line in run.metrics():
        if line["step"] > after:
            yield line


def watch(path: Path, observer: Observer, seconds: float = SECONDS) -> RunFolder:
    """Report the metrics of a run to an observer as they appear, and return when the run has its result."""
    run = RunFolder.open(path)
    observer.on_start(0, run.config().training.total_steps)
    step = -1
    while True:
        is_finished = run.is_finished()  # before the lines, so that none is missed
        for line in new_lines(run, step):
            step = int(line["step"] or 0)
            observer.on_line(line)
            observer.on_step(step)
        if is_finished:
            return run
        time.sleep(seconds)
