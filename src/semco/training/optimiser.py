"""SGD with Nesterov momentum; no weight decay on normalisation layers and biases.

Weight decay towards the first weights is a loss (`StartDecay`).
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from semco.config import OptimConfig
from semco.models import Network


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


class SGD(torch.optim.SGD):
    """The same updates without torch's compiler, whose import takes over a second.

    torch wraps these methods so that no compiled code contains them, and for that imports the compiler in every run.
    Here only the network is compiled, never the optimiser.
    """

    add_param_group = inspect.unwrap(torch.optim.SGD.add_param_group)
    zero_grad = inspect.unwrap(torch.optim.SGD.zero_grad)
    step = torch.no_grad()(inspect.unwrap(torch.optim.SGD.step))


def build_optimiser(config: OptimConfig, network: Network, method: nn.Module) -> SGD:
    """Return the optimiser; a run sets the rates at every step (`learning_rate`)."""
    backbone, others = list(network.backbone.parameters()), [*network.heads.parameters(), *method.parameters()]
    if config.backbone_lr == config.lr:
        groups = parameter_groups([*backbone, *others], config.weight_decay, config.lr)
    else:
        groups = parameter_groups(others, config.weight_decay, config.lr)
        groups += parameter_groups(backbone, config.weight_decay, config.backbone_lr)
    nesterov = config.nesterov and config.momentum > 0
    # Both make one call for all tensors; fused is slower on CPUs.
    kind = {"fused": True} if any(p.is_cuda for p in [*backbone, *others]) else {"foreach": True}
    return SGD(groups, lr=config.lr, momentum=config.momentum, nesterov=nesterov, **kind)


def probe_heads(network: Network) -> nn.ModuleList:
    """Return the heads that can start from a linear probe; the others start from random weights."""
    return nn.ModuleList(
        head for name, head in network.heads.items() if name in ("one_hot", "semantic") and isinstance(head, nn.Linear)
    )


class StartDecay:
    """Half the squared distance of the trained weights of a module to those at the start, times a strength.

    L2-SP (Li et al., Explicit Inductive Bias for Transfer Learning, 2018). Pseudo-labels move a head away from the
    probe that made them; with few labels this keeps it near.
    """

    def __init__(self, module: nn.Module, strength: float) -> None:
        self.strength = strength
        self._weights = [p for p in module.parameters() if p.requires_grad]
        self._start = [p.detach().clone() for p in self._weights]

    def __call__(self) -> Tensor:
        """Return the loss ()."""
        terms = [(now - start).square().sum() for now, start in zip(self._weights, self._start, strict=True)]
        return self.strength / 2 * torch.stack(terms).sum()
