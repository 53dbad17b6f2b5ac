"""SGD with Nesterov momentum; no weight decay on normalisation layers and biases."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from semco.config import OptimConfig
from semco.models import Network


@dataclass(frozen=True)
class Rates:
    """The highest learning rates of a run."""

    heads: float  # also of the layers of the method
    backbone: float


def parameter_groups(parameters: Sequence[nn.Parameter], weight_decay: float, lr: float) -> list[dict[str, Any]]:
    """Return two parameter groups: matrices and kernels decay; vectors (biases, normalisation) and scalars do not.

    ``highest`` is the rate of the group between warm-up and decay.
    """
    trained = [p for p in parameters if p.requires_grad]
    decayed, others = [p for p in trained if p.ndim > 1], [p for p in trained if p.ndim <= 1]
    return [
        {"params": decayed, "weight_decay": weight_decay, "lr": lr, "highest": lr},
        {"params": others, "weight_decay": 0.0, "lr": lr, "highest": lr},
    ]


def build_optimiser(config: OptimConfig, rates: Rates, network: Network, method: nn.Module) -> torch.optim.SGD:
    """Return the optimiser; a run sets the rates at every step (`learning_rate`)."""
    backbone, others = list(network.backbone.parameters()), [*network.heads.parameters(), *method.parameters()]
    if rates.backbone == rates.heads:
        groups = parameter_groups([*backbone, *others], config.weight_decay, rates.heads)
    else:
        groups = parameter_groups(others, config.weight_decay, rates.heads)
        groups += parameter_groups(backbone, config.weight_decay, rates.backbone)
    nesterov = config.nesterov and config.momentum > 0
    # foreach makes one call for all tensors. fused is slower on CPUs, but reads the gradient scaler on the GPU, so
    # that the host does not wait for it at every step.
    kind = {"fused": True} if any(p.is_cuda for p in [*backbone, *others]) else {"foreach": True}
    return torch.optim.SGD(groups, lr=rates.heads, momentum=config.momentum, nesterov=nesterov, **kind)
