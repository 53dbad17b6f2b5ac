"""Where and how the network runs: device, memory format, what is recomputed. See also `precision`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import torch
from torch import nn

from semco.config import TrainingConfig
from semco.distributed.processes import Processes
from semco.errors import UserError
from semco.models.activation import recompute_activations
from semco.models.backbone import set_precision
from semco.models.normalisation import synchronise

N = TypeVar("N", bound=nn.Module)
# Multiply-adds of a forward pass, in linear layers, below which a step is faster with one thread. Several threads gain
# nothing then, and wait for each other if another program uses a core (docs/lab/speed.md).
SMALL_PASS = 2e8


def choose_device(name: str, processes: Processes) -> torch.device:
    """Return the device of a name: "cuda" is this process's GPU, "auto" the same if there is one, else the CPU."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if name == "cuda":
        name = f"cuda:{processes.local_rank}"
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise UserError(f"device {name!r} cannot be used ({reason}); try training.device=cpu.") from None
    if device.type == "cuda":
        torch.cuda.set_device(device)
        torch.set_float32_matmul_precision("high")  # TF32
        torch.backends.cudnn.benchmark = True
    return device


def prepare_network(network: N, config: TrainingConfig, device: torch.device) -> N:
    """Return the network on its device, channels-last, with synchronised norms and recomputation as configured."""
    set_precision(network, config.precision)
    if config.sync_batch_norm:
        synchronise(network)
    if config.recompute:
        recompute_activations(network)
    placed: N = network.to(device, memory_format=torch.channels_last)  # type: ignore[call-overload]
    return placed


@contextmanager
def threads_for_steps(network: nn.Module, views: int) -> Iterator[None]:
    """Use one thread of the CPU if a step passes its ``views`` through a few linear layers only: the heads."""
    threads = torch.get_num_threads()
    weights = sum(part.weight.numel() for part in network.modules() if isinstance(part, nn.Linear))
    is_linear = not any(isinstance(part, nn.Conv2d) for part in network.modules())
    if is_linear and views * weights < SMALL_PASS:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


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
