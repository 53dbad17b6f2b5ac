"""The state of a training run: everything that changes from step to step, saved and loaded as a whole."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from semco.distributed.processes import Processes, same_error_everywhere
from semco.run.checkpoint import Checkpoint, add_prefix, save_checkpoint, with_prefix
from semco.training.statistics import Meters


@dataclass
class TrainingState:
    """Weights, EMA weights, buffers of the method, optimiser, running sums and position of a run."""

    network: nn.Module
    average: nn.Module  # EMA weights
    method: nn.Module
    optimiser: torch.optim.SGD
    meters: Meters
    processes: Processes
    step: int = field(default=0)  # finished steps
    seconds: float = field(default=0.0)

    def save(self, folder: Path, config: Mapping[str, Any], seal: Mapping[str, Any]) -> None:
        """Write a checkpoint that also holds the configuration of the run and the seal of its inputs."""
        tensors = {
            **add_prefix("network", self.network.state_dict()),
            **add_prefix("average", self.average.state_dict()),
            **add_prefix("method", self.method.state_dict()),
            **add_prefix("optimiser", _momenta(self.optimiser)),
            **add_prefix("meters", self.meters.state(self.processes)),
        }
        state = {"seconds": self.seconds, "config": dict(config), "seal": dict(seal)}
        with same_error_everywhere(self.processes):
            if self.processes.is_main:
                save_checkpoint(folder, self.step, tensors, state)

    def load(self, checkpoint: Checkpoint) -> None:
        """Continue from a checkpoint."""
        tensors, state = checkpoint
        self.network.load_state_dict(with_prefix("network", tensors))
        self.average.load_state_dict(with_prefix("average", tensors))
        self.method.load_state_dict(with_prefix("method", tensors))
        _load_momenta(self.optimiser, with_prefix("optimiser", tensors))
        self.meters.load(with_prefix("meters", tensors), self.processes)
        self.step, self.seconds = int(state["step"]), float(state["seconds"])

    def is_finite(self) -> bool:
        """Return whether all weights are finite numbers. This waits for the device."""
        return all(bool(tensor.isfinite().all()) for tensor in self.network.state_dict().values())


def _momenta(optimiser: torch.optim.SGD) -> dict[str, Tensor]:
    """Return the momentum of each parameter, by its position."""
    momenta = [optimiser.state[p].get("momentum_buffer") for p in _parameters(optimiser)]
    return {str(i): m for i, m in enumerate(momenta) if m is not None}


def _load_momenta(optimiser: torch.optim.SGD, tensors: Mapping[str, Tensor]) -> None:
    for i, parameter in enumerate(_parameters(optimiser)):
        if str(i) in tensors:
            buffer = torch.empty_like(parameter).copy_(tensors[str(i)])
            optimiser.state[parameter]["momentum_buffer"] = buffer


def _parameters(optimiser: torch.optim.SGD) -> list[nn.Parameter]:
    return [p for group in optimiser.param_groups for p in group["params"]]
