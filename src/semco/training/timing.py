"""How long a piece of work takes on this machine, for plans and for choices between ways to compute."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch

# On busy cores a single pass may take a hundred times as long as the next, so passes are repeated: for SECONDS, and up
# to ENOUGH times as long as they take less than LONG seconds together.
SECONDS = 0.3
ENOUGH, LONG = 4, 2.0


def shortest_time(run: Callable[[], object], device: torch.device | None = None) -> float:
    """Return the shortest of several durations of ``run`` in seconds, after a call that is not counted."""
    durations: list[float] = []
    _time(run, device)
    while len(durations) < 2 or sum(durations) < SECONDS or (len(durations) < ENOUGH and sum(durations) < LONG):
        durations.append(_time(run, device))
    return min(durations)


def _time(run: Callable[[], object], device: torch.device | None) -> float:
    started = time.perf_counter()
    run()
    if device is not None and device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter() - started
