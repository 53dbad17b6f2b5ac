"""SGD with Nesterov momentum; no weight decay on normalisation layers and biases."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import nn

from semco.config import OptimConfig


def parameter_groups(modules: Iterable[nn.Module], weight_decay: float) -> list[dict[str, object]]:
    """Matrices and kernels decay; vectors (biases, normalisation) and scalars do not."""
    parameters = [p for module in modules for p in module.parameters() if p.requires_grad]
    return [
        {"params": [p for p in parameters if p.ndim > 1], "weight_decay": weight_decay},
        {"params": [p for p in parameters if p.ndim <= 1], "weight_decay": 0.0},
    ]


def build_optimiser(config: OptimConfig, lr: float, *modules: nn.Module) -> torch.optim.SGD:
    """``lr`` is what it begins with; a run sets the rate at every step (`semco.training.schedule`)."""
    groups = parameter_groups(modules, config.weight_decay)
    nesterov = config.nesterov and config.momentum > 0
    # foreach is one call for all tensors. fused, slower than it on CPU, hears a gradient scaler on the GPU itself, so
    # that the host need not wait for it at every step.
    on_gpu = any(parameter.is_cuda for module in modules for parameter in module.parameters())
    kind = {"fused": True} if on_gpu else {"foreach": True}
    return torch.optim.SGD(groups, lr=lr, momentum=config.momentum, nesterov=nesterov, **kind)
