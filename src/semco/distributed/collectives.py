"""Collective operations over the processes of a run; with one process each returns its argument.

Shapes: n rows of this process, N rows of all processes.
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor


def is_distributed() -> bool:
    """Return whether a process group exists."""
    return dist.is_initialized()


def process_count() -> int:
    """Return the number of processes, 1 without a process group."""
    return dist.get_world_size() if dist.is_initialized() else 1


def gather_rows(rows: Tensor) -> Tensor:
    """Return the rows (n, ...) of every process, in order of their ranks, without gradient: (N, ...).

    Every process must have the same number of rows.
    """
    if not dist.is_initialized():
        return rows
    parts = [torch.empty_like(rows) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, rows.detach().contiguous())
    return torch.cat(parts)


def mean_over_processes(values: Tensor) -> Tensor:
    """Return the mean of the values of all processes, with gradient."""
    if not dist.is_initialized():
        return values
    mean: Tensor = _Mean.apply(values)  # type: ignore[no-untyped-call]
    return mean


class AllProcesses:
    """`semco.types.Peers` over the process group."""

    def gather(self, rows: Tensor) -> Tensor:
        return gather_rows(rows)

    def mean(self, values: Tensor) -> Tensor:
        return mean_over_processes(values)


class _Mean(torch.autograd.Function):
    """The mean over processes. Its gradient is the mean of their gradients, as each loss depends on each input."""

    @staticmethod
    def forward(ctx: object, values: Tensor) -> Tensor:  # noqa: ARG004
        return _mean(values)

    @staticmethod
    def backward(ctx: object, gradient: Tensor) -> Tensor:  # noqa: ARG004
        return _mean(gradient)


def _mean(values: Tensor) -> Tensor:
    summed = values.clone()
    dist.all_reduce(summed)
    return summed / dist.get_world_size()
