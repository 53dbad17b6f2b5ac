"""Runs the cases of an attack within a time, and repeats the first case of each kind of failure."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path

from torture.attack import Attack
from torture.summary import Tally
from torture.workers import run_cases

CASES_SHARE = 0.85  # of the time; the rest is for repeating failures


def run_attack(attack: Attack, root: Path, seed: int, numbers: Sequence[int], deadline: float, jobs: int = 2) -> Tally:
    """Run the cases with these numbers until ``deadline``, and repeat each kind of failure in a new process."""
    began = time.monotonic()
    (root / "originals").mkdir(parents=True)
    originals = attack.prepare(root / "originals")
    tally = Tally(attack.name, len(numbers), seed)
    last = began + CASES_SHARE * (deadline - began)
    for outcome in run_cases(attack, originals, root, seed, iter(numbers), last, min(jobs, len(numbers))):
        tally.add(outcome)
        show_progress(tally)
    for kind in tally.kinds.values() if len(numbers) > 1 else ():
        if time.monotonic() < deadline:
            (again,) = run_cases(attack, originals, root, seed, iter([kind.case]), float("inf"), 1)
            kind.repeated = again.failure == kind.kind
    tally.seconds = time.monotonic() - began
    return tally


def show_progress(tally: Tally) -> None:
    if sys.stderr.isatty():
        end = "\n" if tally.tried == tally.wanted else ""
        sys.stderr.write(f"\r{tally.attack}: {tally.tried:,} of {tally.wanted:,}, {tally.failed:,} failed{end}")
