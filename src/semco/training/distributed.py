"""Several processes, started by torchrun; with one process every function here does nothing."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor, nn


@dataclass(frozen=True)
class Processes:
    """This process among all."""

    rank: int = 0
    world_size: int = 1
    local_rank: int = 0

    @classmethod
    def from_environment(cls) -> Processes:
        """What torchrun says in the environment; alone where it says nothing."""
        names = ("RANK", "WORLD_SIZE", "LOCAL_RANK")
        return cls(*(int(os.environ.get(name, default)) for name, default in zip(names, "010", strict=True)))

    @property
    def is_main(self) -> bool:
        return self.rank == 0

    @property
    def several(self) -> bool:
        return self.world_size > 1


@contextmanager
def process_group(processes: Processes, device: torch.device) -> Iterator[None]:
    """The process group for a run: NCCL between GPUs, gloo between CPUs."""
    if not processes.several:
        yield
        return
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    try:
        yield
    finally:
        dist.destroy_process_group()


@torch.no_grad()
def average_buffers(modules: list[nn.Module], processes: Processes) -> None:
    """Mean over processes of every floating-point buffer, the greatest of every other.

    Running statistics and the methods' running distributions are moving averages of batch means: linear, so that
    their mean over processes is what one process with the whole batch would hold. Counters and records of the last
    prediction of an image (each image is seen by one process) only grow, or start at -1: the greatest is the newest.
    """
    if not processes.several:
        return
    buffers = [b for module in modules for b in module.buffers()]
    for floating, operation in ((True, dist.ReduceOp.SUM), (False, dist.ReduceOp.MAX)):
        chosen = [b for b in buffers if b.is_floating_point() == floating and b.numel()]
        for dtype in {b.dtype for b in chosen}:
            same = [b for b in chosen if b.dtype == dtype]
            flat = torch.cat([b.reshape(-1) for b in same])
            dist.all_reduce(flat, operation)
            _scatter(flat / processes.world_size if floating else flat, same)


def _scatter(flat: Tensor, targets: list[Tensor]) -> None:
    for part, target in zip(flat.split([t.numel() for t in targets]), targets, strict=True):
        target.copy_(part.view_as(target))


def sum_over_processes(tensors: dict[str, Tensor], processes: Processes) -> dict[str, Tensor]:
    """Each tensor summed over all processes (the same names everywhere)."""
    if not processes.several:
        return tensors
    summed = {name: tensor.clone() for name, tensor in tensors.items()}
    for name in sorted(summed):
        dist.all_reduce(summed[name])
    return summed


def any_process(flag: bool, processes: Processes, device: torch.device) -> bool:
    """Whether the flag is set in any process: all of them must stop at the same step."""
    if not processes.several:
        return flag
    seen = torch.tensor(float(flag), device=device)
    dist.all_reduce(seen, dist.ReduceOp.MAX)
    return bool(seen > 0)
