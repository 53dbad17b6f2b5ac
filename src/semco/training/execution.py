"""Where and how the network runs: device, memory format, what is recomputed. See also `precision`."""

from __future__ import annotations

from typing import TypeVar

import torch
from torch import nn

from semco.config import TrainingConfig
from semco.distributed.processes import Processes
from semco.errors import UserError
from semco.models.activation import recompute_activations
from semco.models.backbone import Precision, set_precision
from semco.models.normalisation import synchronise

N = TypeVar("N", bound=nn.Module)


def choose_device(name: str, processes: Processes) -> torch.device:
    """Return the device of a name; ``auto`` is this process's GPU if there is one, else the CPU."""
    if name == "auto":
        name = f"cuda:{processes.local_rank}" if torch.cuda.is_available() else "cpu"
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


def recomputes_activations(config: TrainingConfig, device: torch.device) -> bool:
    """Return whether activations are recomputed in the backward pass instead of stored."""
    return config.recompute == "on" or (config.recompute == "auto" and device.type == "cpu")


def prepare_network(network: N, config: TrainingConfig, device: torch.device, precision: Precision = "float32") -> N:
    """Return the network on its device, channels-last, with synchronised norms and recomputation as configured."""
    set_precision(network, precision)
    if config.sync_batch_norm:
        synchronise(network)
    if recomputes_activations(config, device):
        recompute_activations(network)
    placed: N = network.to(device, memory_format=torch.channels_last)  # type: ignore[call-overload]
    return placed
