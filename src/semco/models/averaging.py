"""Exponential moving averages (EMA) whose memory grows with the run.

With a constant decay of 0.999 an average still holds most of its initial value after a few hundred steps. The warm-up
lets the n-th update count more at first, so that short runs do not end before the average has moved away from its
initial value. The EMA of the weights, batch-norm statistics and adaptive thresholds follow the same rule.
"""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn


def update_weight(updates: Tensor, least: float) -> Tensor:
    """Return the weight () float32 of the n-th update, () int64: 9 / (9 + n), and never less than ``least``.

    The result is a tensor, so that the host does not wait for a GPU.
    """
    return (9.0 / (9.0 + updates)).clamp(min=least)


def ema_decay_at(step: int, decay: float, warmup: bool) -> float:
    """Return the decay of the update after ``step`` finished steps; with warm-up, min(decay, (1 + t) / (10 + t))."""
    return min(decay, (1 + step) / (10 + step)) if warmup else decay


def ema_copy(network: nn.Module) -> nn.Module:
    """Return a frozen copy of the network in evaluation mode, to be updated by `update_ema`."""
    average = copy.deepcopy(network).eval()
    return average.requires_grad_(False)


@torch.no_grad()
def update_ema(average: nn.Module, network: nn.Module, decay: float) -> None:
    """Average the parameters and copy the buffers (running statistics)."""
    old: list[Tensor] = list(average.parameters())
    new: list[Tensor] = list(network.parameters())
    torch._foreach_lerp_(old, new, 1.0 - decay)
    if statistics := list(network.buffers()):  # a network without normalisation has none
        torch._foreach_copy_(list(average.buffers()), statistics)
