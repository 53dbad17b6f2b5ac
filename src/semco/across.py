"""A step's images are shared out among processes; what must be known of all of them at once is asked for here.

Alone, every function returns what it is given. Shapes: n rows of this process, N of all.
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor


def rows_across(rows: Tensor) -> Tensor:
    """The rows (n, ...) of every process, one after the other, without gradient: (N, ...). All have equally many."""
    if not dist.is_initialized():
        return rows
    parts = [torch.empty_like(rows) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, rows.detach().contiguous())
    return torch.cat(parts)


def mean_across(values: Tensor) -> Tensor:
    """The mean of the values that each process has, with gradient."""
    if not dist.is_initialized():
        return values
    mean: Tensor = _Mean.apply(values)  # type: ignore[no-untyped-call]
    return mean


class _Mean(torch.autograd.Function):
    """The mean over processes; its gradient is the mean of theirs, as each loss depends on each input."""

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
