"""Norm, activation and the following convolution, optionally without storing the activation between them.

The backward pass of a convolution needs its input, here norm and activation of x. Storing it costs as much memory as x
itself, which the norm stores anyway; recomputing it from x costs little compared with the convolution.
Shapes: N images, C channels, H and W pixels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from semco.models.normalisation import WarmBatchNorm2d

R = TypeVar("R")


class Block(nn.Module):
    """A block of a network whose activations go through `after_activation`."""

    recompute = False  # recompute the activations in the backward pass


def after_activation(use: Callable[[Tensor], R], norm: nn.Module, x: Tensor, slope: float, recompute: bool) -> R:
    """Return use(activation(norm(x))) of x (N, C, H, W); the activation is a ReLU with ``slope`` below 0."""
    normed = norm(x)
    can_recompute = recompute and normed.requires_grad
    if can_recompute and isinstance(norm, WarmBatchNorm2d) and norm.is_local:
        with recomputed(normed, lambda: _activate(norm.repeat(x.detach()), slope)):
            return use(_activate(normed, slope))
    return use(_activate(normed, slope, in_place=normed is not x))  # without a norm, x itself is still needed


def _activate(values: Tensor, slope: float, in_place: bool = True) -> Tensor:
    """Apply the activation, in place to store half as many maps for the backward pass."""
    return F.leaky_relu(values, slope, in_place) if slope else F.relu(values, in_place)


@contextmanager
def recomputed(stored: Tensor, compute: Callable[[], Tensor]) -> Iterator[None]:
    """Make autograd store, instead of a tensor (or its memory after in-place changes), how to compute it."""
    placeholder = _Placeholder(stored.data_ptr(), compute)
    with torch.autograd.graph.saved_tensors_hooks(placeholder.pack, placeholder.unpack):
        yield


class _Placeholder:
    """A tensor that is computed once for all its uses in a backward pass, then released."""

    def __init__(self, address: int, compute: Callable[[], Tensor]) -> None:
        self._address, self._compute = address, compute
        self._uses = self._uses_left = 0
        self._tensor: Tensor | None = None

    def pack(self, tensor: Tensor) -> object:
        if tensor.data_ptr() != self._address:
            return tensor
        self._uses += 1
        return self

    def unpack(self, packed: object) -> Tensor:
        if packed is not self:
            assert isinstance(packed, Tensor)
            return packed
        if self._tensor is None:
            with torch.no_grad():
                self._tensor, self._uses_left = self._compute(), self._uses
        tensor, self._uses_left = self._tensor, self._uses_left - 1
        if self._uses_left == 0:
            self._tensor = None
        return tensor


def recompute_activations(network: nn.Module) -> None:
    """Make every block of a network recompute its activations in the backward pass."""
    for block in network.modules():
        if isinstance(block, Block):
            block.recompute = True
