"""What the processes exchange after a step besides gradients: losses, buffers, and requests to stop.

Shapes: P processes, U unlabelled images of this process.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from semco.distributed.processes import Processes, reduce_over_processes, stack_over_processes
from semco.training.signals import CAUGHT


@dataclass(frozen=True)
class Buffers:
    """The buffers that evolve, by the way in which they are merged.

    Only saved buffers are merged: one that is registered with ``persistent=False`` is a constant. The counters of the
    network's normalisation layers count steps and are equal in all processes.
    """

    averaged: list[Tensor]  # floating-point
    maximised: list[Tensor]  # counters
    per_image: list[Tensor]  # one row per image of the unlabelled pool

    @classmethod
    def of(cls, network: nn.Module, method: nn.Module) -> Buffers:
        rows = per_image_names(method)
        own = saved_buffers(method)
        shared = [tensor for name, tensor in own.items() if name not in rows]
        both = [*saved_buffers(network).values(), *shared]
        return cls(
            averaged=[tensor for tensor in both if tensor.is_floating_point()],
            maximised=[tensor for tensor in shared if not tensor.is_floating_point()],
            per_image=[tensor for name, tensor in own.items() if name in rows],
        )


def saved_buffers(module: nn.Module) -> dict[str, Tensor]:
    """Return the buffers of a module that its state holds, by name."""
    parameters = {name for name, _ in module.named_parameters(remove_duplicate=False)}
    return {name: tensor for name, tensor in module.state_dict().items() if name not in parameters}


def per_image_names(module: nn.Module) -> set[str]:
    """Return the full names of the buffers that the module or its parts declare in ``per_image_buffers``."""
    return {
        f"{prefix}.{name}".lstrip(".")
        for prefix, part in module.named_modules()
        for name in getattr(part, "per_image_buffers", ())
    }


class StepExchange:
    """Merges the state of the processes after a step, by one message and one more per special kind of buffer."""

    def __init__(self, network: nn.Module, method: nn.Module, processes: Processes) -> None:
        self._network, self._method, self._processes = network, method, processes
        self._votes: _PendingCopy | None = None
        self._agreed: int | None = None

    @torch.no_grad()
    def __call__(self, losses: Mapping[str, Tensor], index: Tensor, signal: int | None) -> dict[str, Tensor]:
        """Merge the buffers and return the mean losses.

        ``index`` (U,) are the unlabelled images of this process, ``signal`` is the signal it received.
        """
        if not self._processes.are_several:
            return dict(losses)
        buffers = Buffers.of(self._network, self._method)
        self._merge_rows(buffers.per_image, index)
        _copy(reduce_over_processes(buffers.maximised, self._processes, "max"), buffers.maximised)
        votes = torch.tensor([float(signal == number) for number in CAUGHT], device=index.device)
        terms = [loss.detach().float() for loss in losses.values()]
        *sums, votes = reduce_over_processes([*buffers.averaged, *terms, votes], self._processes)
        means = [tensor / self._processes.world_size for tensor in sums]
        _copy(means[: len(buffers.averaged)], buffers.averaged)
        self._count(votes)
        return dict(zip(losses, means[len(buffers.averaged) :], strict=True))

    def stop(self, signal: int | None) -> int | None:
        """Return the signal to stop at: this process's own if alone, else the one that any process has voted for.

        All processes get the same answer, one step after the vote.
        """
        return self._agreed if self._processes.are_several else signal

    def _merge_rows(self, buffers: list[Tensor], index: Tensor) -> None:
        """Take the row of each image from the process that saw the image."""
        if not buffers:
            return
        everywhere = stack_over_processes(index, self._processes).flatten()
        for buffer in buffers:
            buffer[everywhere] = stack_over_processes(buffer[index], self._processes).flatten(0, 1)

    def _count(self, votes: Tensor) -> None:
        """Count the votes of the step before, so that no step waits for the device."""
        if self._votes is not None:
            received = [number for number, vote in zip(CAUGHT, self._votes.read(), strict=True) if vote > 0]
            self._agreed = max(received, default=None)
        self._votes = _PendingCopy(votes)


def _copy(sources: list[Tensor], targets: list[Tensor]) -> None:
    for source, target in zip(sources, targets, strict=True):
        target.copy_(source)


class _PendingCopy:
    """A small tensor that is being copied to the host."""

    def __init__(self, tensor: Tensor) -> None:
        self._event = None
        self._host = tensor
        if tensor.device.type == "cuda":
            self._host = torch.empty_like(tensor, device="cpu", pin_memory=True)
            self._host.copy_(tensor, non_blocking=True)
            self._event = torch.cuda.Event()
            self._event.record()

    def read(self) -> list[float]:
        if self._event is not None:
            self._event.synchronize()
        values: list[float] = self._host.tolist()
        return values
