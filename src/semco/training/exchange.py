"""What the processes tell one another after a step besides gradients: losses, buffers, and who must stop.

Shapes: P processes, U unlabelled images of this process.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor, nn

from semco.training.distributed import Processes, gather, reduce
from semco.training.signals import CAUGHT


@dataclass(frozen=True)
class Buffers:
    """The buffers that evolve, by the way in which they are brought together.

    Only saved buffers are: one that is registered with ``persistent=False`` is a constant. The counters of the
    network's normalisation layers count steps, which all processes do alike.
    """

    averaged: list[Tensor]  # floating-point
    greatest: list[Tensor]  # counters and the like
    per_image: list[Tensor]  # a row for each image of the unlabelled pool

    @classmethod
    def of(cls, network: nn.Module, method: nn.Module) -> Buffers:
        rows = per_image_names(method)
        own = saved_buffers(method)
        shared = [tensor for name, tensor in own.items() if name not in rows]
        both = [*saved_buffers(network).values(), *shared]
        return cls(
            averaged=[tensor for tensor in both if tensor.is_floating_point()],
            greatest=[tensor for tensor in shared if not tensor.is_floating_point()],
            per_image=[tensor for name, tensor in own.items() if name in rows],
        )


def saved_buffers(module: nn.Module) -> dict[str, Tensor]:
    parameters = {name for name, _ in module.named_parameters(remove_duplicate=False)}
    return {name: tensor for name, tensor in module.state_dict().items() if name not in parameters}


def per_image_names(module: nn.Module) -> set[str]:
    """Full names of the buffers that ``per_image_buffers`` of the module or its parts declares."""
    return {
        f"{prefix}.{name}".lstrip(".")
        for prefix, part in module.named_modules()
        for name in getattr(part, "per_image_buffers", ())
    }


class StepExchange:
    """One message after a step; a further one for each unusual kind of buffer that the method has."""

    def __init__(self, network: nn.Module, method: nn.Module, processes: Processes) -> None:
        self._network, self._method, self._processes = network, method, processes
        self._votes: _Later | None = None
        self._heard: int | None = None

    @torch.no_grad()
    def __call__(self, losses: Mapping[str, Tensor], index: Tensor, signal: int | None) -> dict[str, Tensor]:
        """Bring buffers together and return mean losses.

        ``index`` (U,) are the unlabelled images of this process's step, ``signal`` is what it was sent.
        """
        if not self._processes.several:
            return dict(losses)
        buffers = Buffers.of(self._network, self._method)
        self._merge_rows(buffers.per_image, index)
        _copy(reduce(buffers.greatest, self._processes, dist.ReduceOp.MAX), buffers.greatest)
        votes = torch.tensor([float(signal == number) for number in CAUGHT], device=index.device)
        terms = [loss.detach().float() for loss in losses.values()]
        *sums, heard = reduce([*buffers.averaged, *terms, votes], self._processes)
        means = [tensor / self._processes.world_size for tensor in sums]
        _copy(means[: len(buffers.averaged)], buffers.averaged)
        self._listen(heard)
        return dict(zip(losses, means[len(buffers.averaged) :], strict=True))

    def stop(self, signal: int | None) -> int | None:
        """The signal to stop at: one's own if alone, else the one that some process has voted for.

        All processes get the same answer, a step after the vote.
        """
        return self._heard if self._processes.several else signal

    def _merge_rows(self, buffers: list[Tensor], index: Tensor) -> None:
        """Each image's row as the process that saw the image left it."""
        if not buffers:
            return
        everywhere = gather(index, self._processes).flatten()
        for buffer in buffers:
            buffer[everywhere] = gather(buffer[index], self._processes).flatten(0, 1)

    def _listen(self, votes: Tensor) -> None:
        """Act on the votes of the step before, so that no step waits for the device."""
        if self._votes is not None:
            received = [number for number, vote in zip(CAUGHT, self._votes.read(), strict=True) if vote > 0]
            self._heard = max(received, default=None)
        self._votes = _Later(votes)


def _copy(sources: list[Tensor], targets: list[Tensor]) -> None:
    for source, target in zip(sources, targets, strict=True):
        target.copy_(source)


class _Later:
    """A small tensor on its way to the host."""

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
