"""The averaged model that validates and predicts."""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn


def averaged_copy(network: nn.Module) -> nn.Module:
    """A frozen copy of the network in evaluation mode, to be updated by `update_average`."""
    average = copy.deepcopy(network).eval()
    return average.requires_grad_(False)


def decay_at(step: int, decay: float, warmup: bool) -> float:
    """The decay of the update after ``step`` finished steps; with warm-up, min(decay, (1 + t) / (10 + t))."""
    return min(decay, (1 + step) / (10 + step)) if warmup else decay


@torch.no_grad()
def update_average(average: nn.Module, network: nn.Module, decay: float) -> None:
    """Parameters are averaged, buffers (running statistics) are copied."""
    old: list[Tensor] = list(average.parameters())
    new: list[Tensor] = list(network.parameters())
    torch._foreach_lerp_(old, new, 1.0 - decay)
    if statistics := list(network.buffers()):  # a network without normalisation has none
        torch._foreach_copy_(list(average.buffers()), statistics)
