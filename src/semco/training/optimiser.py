"""SGD with Nesterov momentum; no weight decay on normalisation layers and biases."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import nn

from semco.config import OptimConfig


def parameter_groups(modules: Iterable[nn.Module], weight_decay: float) -> list[dict[str, object]]:
    """Return two parameter groups: matrices and kernels decay; vectors (biases, normalisation) and scalars do not."""
    parameters = [p for module in modules for p in module.parameters() if p.requires_grad]
    return [
        {"params": [p for p in parameters if p.ndim > 1], "weight_decay": weight_decay},
        {"params": [p for p in parameters if p.ndim <= 1], "weight_decay": 0.0},
    ]


def build_optimiser(config: OptimConfig, lr: float, *modules: nn.Module) -> torch.optim.SGD:
    """Return the optimiser with the initial rate ``lr``; a run sets the rate at every step (`learning_rate`)."""
    groups = parameter_groups(modules, config.weight_decay)
    nesterov = config.nesterov and config.momentum > 0
    # foreach makes one call for all tensors. fused is slower on CPUs, but reads the gradient scaler on the GPU, so
    # that the host does not wait for it at every step.
    on_gpu = any(parameter.is_cuda for module in modules for parameter in module.parameters())
    kind = {"fused": True} if on_gpu else {"foreach": True}
    return torch.optim.SGD(groups, lr=lr, momentum=config.momentum, nesterov=nesterov, **kind)
