"""Several processes, started by torchrun; with one process every function here does nothing.

Shapes: P processes, n rows of this process, N rows of all processes together.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

import torch
import torch.distributed as dist
from torch import Tensor
from torch._C._distributed_c10d import PrefixStore, Store
from torch.distributed.rendezvous import rendezvous

from semco.across import rows_across
from semco.errors import UserError

T = TypeVar("T")


@dataclass(frozen=True)
class Processes:
    """This process among all; ``restarts`` counts how often torchrun has started them anew."""

    rank: int = 0
    world_size: int = 1
    local_rank: int = 0
    restarts: int = 0

    @classmethod
    def from_environment(cls) -> Processes:
        """What torchrun says in the environment; alone where it says nothing."""
        names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "TORCHELASTIC_RESTART_COUNT")
        return cls(*(int(os.environ.get(name, default)) for name, default in zip(names, "0100", strict=True)))

    @property
    def is_main(self) -> bool:
        return self.rank == 0

    @property
    def several(self) -> bool:
        return self.world_size > 1

    def share(self, count: int) -> slice:
        """This process's part of ``count`` things: parts follow one another and differ by one in length at most."""
        return slice(count * self.rank // self.world_size, count * (self.rank + 1) // self.world_size)


@contextmanager
def process_group(processes: Processes) -> Iterator[None]:
    """The process group for a run: NCCL between GPUs; gloo between CPUs and for what is said in words."""
    if not processes.several:
        yield
        return
    backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
    rank, world_size = processes.rank, processes.world_size
    dist.init_process_group(backend, store=_store(processes), rank=rank, world_size=world_size)
    try:
        yield
    finally:
        dist.destroy_process_group()


def _store(processes: Processes) -> Store:
    """Where the processes find one another.

    torchrun keeps one store for all its restarts, in which the addresses of dead processes would still stand
    (github.com/pytorch/pytorch/issues/135712); so each start writes under a name of its own.
    """
    store: Store = next(rendezvous("env://"))[0]
    shared = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    return PrefixStore(f"start-{processes.restarts}", store) if shared else store


@contextmanager
def together(processes: Processes) -> Iterator[None]:
    """A user's mistake that one process meets ends all of them with the same sentence, so that none waits for it.

    The block itself must not communicate.
    """
    message = None
    try:
        yield
    except UserError as error:
        if not processes.several:
            raise
        message = str(error)
    if processes.several:
        messages: list[str | None] = [None] * processes.world_size
        dist.all_gather_object(messages, message)
        for said in messages:
            if said is not None:
                raise UserError(said)


def from_main(value: T, processes: Processes) -> T:
    """The value that the main process has."""
    if not processes.several:
        return value
    box = [value]
    dist.broadcast_object_list(box, src=0)
    return box[0]


def gather_rows(rows: Tensor, processes: Processes) -> Tensor:
    """The rows of all processes, in the order of their ranks: (N, ...). Parts may differ in length."""
    if not processes.several:
        return rows
    lengths = rows.new_zeros(processes.world_size, dtype=torch.int64)
    lengths[processes.rank] = len(rows)
    dist.all_reduce(lengths)
    counts: list[int] = lengths.tolist()
    padded = rows.new_zeros(max(counts), *rows.shape[1:])
    padded[: len(rows)] = rows
    parts = gather(padded, processes)
    return torch.cat([part[:count] for part, count in zip(parts, counts, strict=True)])


def gather(tensor: Tensor, processes: Processes) -> Tensor:
    """The tensor of each process, of one shape everywhere: (P, ...)."""
    return rows_across(tensor[None]) if processes.several else tensor[None]


def sum_over_processes(tensors: Mapping[str, Tensor], processes: Processes) -> dict[str, Tensor]:
    """Each tensor summed over all processes (the same names and shapes everywhere)."""
    if not tensors:
        return {}
    return dict(zip(tensors, reduce(list(tensors.values()), processes), strict=True))


def reduce(
    tensors: Sequence[Tensor], processes: Processes, operation: dist.ReduceOp.RedOpType = dist.ReduceOp.SUM
) -> list[Tensor]:
    """Each tensor summed (or else) over all processes; one message for each type of number."""
    reduced = list(tensors)
    for dtype in dict.fromkeys(tensor.dtype for tensor in tensors) if processes.several else ():
        places = [i for i, tensor in enumerate(tensors) if tensor.dtype == dtype]
        flat = pack([tensors[i] for i in places])
        dist.all_reduce(flat, operation)
        for i, part in zip(places, unpack(flat, [tensors[i] for i in places]), strict=True):
            reduced[i] = part
    return reduced


def pack(tensors: Sequence[Tensor]) -> Tensor:
    """All values in one row, to be sent as one message."""
    return torch.cat([tensor.detach().reshape(-1) for tensor in tensors])


def unpack(flat: Tensor, like: Sequence[Tensor]) -> list[Tensor]:
    """The inverse of `pack`."""
    parts = flat.split([tensor.numel() for tensor in like])
    return [part.view(tensor.shape) for part, tensor in zip(parts, like, strict=True)]
