"""CPU time of starting: commands in processes of their own, compared with Python that only imports torch."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Sequence

from benchmarks.child import child_failed, with_benchmarks
from benchmarks.rows import Row, best_and_median

HELP = "semco --help"
PLAN = "semco reproduce all --dry-run"
STEP = "semco train, until the first step has been taken"
TORCH = "importing torch"
_STEP_CODE = """
import os
from semco.config import Config
from semco.experiment import train
from semco.training.observer import NullObserver

class First(NullObserver):
    def on_step(self, step):
        os._exit(0)

request = {
    "data": {"source": "fashion-mini", "labels_per_class": 4},
    "method": {"name": "semco_plus"},
    "model": {"backbone": "wrn-10-1", "pretrained": "none"},
    "training": {"steps": 3, "batch_size": 16},
}
train(Config.parse(request), "run", First())
raise SystemExit("no step was taken")
"""
COMMANDS = {
    TORCH: ["-c", "import torch"],
    HELP: ["-m", "semco", "--help"],
    PLAN: ["-m", "semco", "reproduce", "all", "--dry-run"],
    STEP: ["-c", _STEP_CODE],
}


def bench_start(repeats: int = 3, threads: int = 1) -> list[Row]:
    """Return the CPU seconds of the commands, which take turns. The limit of all but the help is to import torch."""
    turns = [
        {what: child_cpu_seconds(what, command, threads) for what, command in COMMANDS.items()} for _ in range(repeats)
    ]
    taken = {what: best_and_median([turn[what] for turn in turns]) for what in COMMANDS}
    torch = taken[TORCH][0]
    rows = [Row(what, "CPU s", *taken[what], limit=torch, limited_by=TORCH) for what in (PLAN, STEP)]
    return [Row(HELP, "CPU s", *taken[HELP]), *rows]


def child_cpu_seconds(what: str, arguments: Sequence[str], threads: int) -> float:
    """Return the CPU seconds of a Python process in a folder of its own, and of the processes that it has started."""
    environment = with_benchmarks({**os.environ, "OMP_NUM_THREADS": str(threads)})
    with tempfile.TemporaryDirectory() as folder:
        before = _children()
        done = subprocess.run(
            [sys.executable, *arguments], capture_output=True, text=True, env=environment, cwd=folder, check=False
        )
        if done.returncode:
            raise child_failed(what, done.stderr, done.returncode)
        return _children() - before


def _children() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime
