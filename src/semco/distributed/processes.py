"""The processes of a run, as torchrun starts them; with one process every function here does nothing.

Shapes: P processes, n rows of this process, N rows of all processes together.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch._C._distributed_c10d import PrefixStore, Store
from torch.distributed.rendezvous import rendezvous

from semco.distributed.launch import end_with_parent, has_parent
from semco.errors import UserError

T = TypeVar("T")
# Closed groups, kept until the process ends. DDP's reducer drops its group while it holds the GIL. If that were the
# last reference, the group would wait for its threads, one of which may wait for the GIL to free a tensor: a deadlock.
_CLOSED: list[dist.ProcessGroup] = []


@dataclass(frozen=True)
class Processes:
    """This process among all; ``restarts`` counts how often torchrun has restarted them."""

    rank: int = 0
    world_size: int = 1
    local_rank: int = 0
    restarts: int = 0

    @classmethod
    def from_environment(cls) -> Processes:
        """Read what torchrun wrote to the environment; a single process if it wrote nothing."""
        names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "TORCHELASTIC_RESTART_COUNT")
        return cls(*(int(os.environ.get(name, default)) for name, default in zip(names, "0100", strict=True)))

    @property
    def is_main(self) -> bool:
        return self.rank == 0

    @property
    def are_several(self) -> bool:
        return self.world_size > 1

    def share(self, count: int) -> slice:
        """Return this process's part of ``count`` items: parts are consecutive and differ by at most one in length."""
        return slice(count * self.rank // self.world_size, count * (self.rank + 1) // self.world_size)


@contextmanager
def process_group(processes: Processes) -> Iterator[None]:
    """Open the process group for a run: NCCL between GPUs, gloo between CPUs and for Python objects."""
    if processes.are_several or has_parent():
        end_with_parent()
    if not processes.are_several:
        yield
        return
    backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
    rank, world_size = processes.rank, processes.world_size
    dist.init_process_group(backend, store=_store(processes), rank=rank, world_size=world_size)
    try:
        yield
    finally:
        assert dist.group.WORLD is not None
        _CLOSED.append(dist.group.WORLD)
        dist.destroy_process_group()


def _store(processes: Processes) -> Store:
    """Return the store in which the processes find one another.

    torchrun keeps one store for all its restarts, which still holds the addresses of dead processes
    (github.com/pytorch/pytorch/issues/135712), so each restart uses its own prefix.
    """
    store: Store = next(rendezvous("env://"))[0]
    is_shared = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    return PrefixStore(f"start-{processes.restarts}", store) if is_shared else store


def share_gradients(step: nn.Module, processes: Processes) -> nn.Module:
    """Return the module wrapped so that all processes get the mean of their gradients."""
    return nn.parallel.DistributedDataParallel(step) if processes.are_several else step


@contextmanager
def same_error_everywhere(processes: Processes) -> Iterator[None]:
    """Raise a `UserError` of one process in all processes, so that none waits for it.

    The block itself must not communicate.
    """
    message = None
    try:
        yield
    except UserError as error:
        if not processes.are_several:
            raise
        message = str(error)
    if processes.are_several:
        messages: list[str | None] = [None] * processes.world_size
        dist.all_gather_object(messages, message)
        for each in messages:
            if each is not None:
                raise UserError(each)


def broadcast_from_main(value: T, processes: Processes) -> T:
    """Return the value of the main process."""
    if not processes.are_several:
        return value
    box = [value]
    dist.broadcast_object_list(box, src=0)
    return box[0]


def gather_uneven_rows(rows: Tensor, processes: Processes) -> Tensor:
    """Return the rows of all processes, in the order of their ranks: (N, ...). Parts may differ in length."""
    if not processes.are_several:
        return rows
    lengths = rows.new_zeros(processes.world_size, dtype=torch.int64)
    lengths[processes.rank] = len(rows)
    dist.all_reduce(lengths)
    counts: list[int] = lengths.tolist()
    padded = rows.new_zeros(max(counts), *rows.shape[1:])
    padded[: len(rows)] = rows
    parts = stack_over_processes(padded, processes)
    return torch.cat([part[:count] for part, count in zip(parts, counts, strict=True)])


def stack_over_processes(tensor: Tensor, processes: Processes) -> Tensor:
    """Return the tensor of each process, of the same shape everywhere: (P, ...)."""
    return gather_rows(tensor[None]) if processes.are_several else tensor[None]


def sum_over_processes(tensors: Mapping[str, Tensor], processes: Processes) -> dict[str, Tensor]:
    """Return each tensor summed over all processes (the same names and shapes everywhere)."""
    if not tensors:
        return {}
    return dict(zip(tensors, reduce_over_processes(list(tensors.values()), processes), strict=True))


def reduce_over_processes(
    tensors: Sequence[Tensor], processes: Processes, operation: Literal["sum", "max"] = "sum"
) -> list[Tensor]:
    """Return the sum or the maximum of each tensor over all processes; one message per dtype."""
    reduced = list(tensors)
    kind = dist.ReduceOp.SUM if operation == "sum" else dist.ReduceOp.MAX
    for dtype in dict.fromkeys(tensor.dtype for tensor in tensors) if processes.are_several else ():
        places = [i for i, tensor in enumerate(tensors) if tensor.dtype == dtype]
        flat = pack([tensors[i] for i in places])
        dist.all_reduce(flat, kind)
        for i, part in zip(places, unpack(flat, [tensors[i] for i in places]), strict=True):
            reduced[i] = part
    return reduced


def pack(tensors: Sequence[Tensor]) -> Tensor:
    """Return all values in one row, to be sent as one message."""
    return torch.cat([tensor.detach().reshape(-1) for tensor in tensors])


def unpack(flat: Tensor, like: Sequence[Tensor]) -> list[Tensor]:
    """Return the tensors that `pack` joined, in the shapes of ``like``."""
    parts = flat.split([tensor.numel() for tensor in like])
    return [part.view(tensor.shape) for part, tensor in zip(parts, like, strict=True)]


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
