"""Norm, activation and the convolution that follows, on demand without keeping the map between them.

The backward pass of a convolution needs its input, here norm and activation of x. To keep that costs as much memory
as x itself, which the norm keeps anyway; to make it again from x costs little beside the convolution.
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

    recompute = False  # activations are made again in the backward pass


def after_activation(use: Callable[[Tensor], R], norm: nn.Module, x: Tensor, slope: float, recompute: bool) -> R:
    """What ``use`` makes of the activated norm of x (N, C, H, W), by a ReLU with ``slope`` below 0."""
    normed = norm(x)
    worth_it = recompute and normed.requires_grad and not torch.compiler.is_compiling()
    if worth_it and isinstance(norm, WarmBatchNorm2d) and norm.is_local:
        with made_again(normed, lambda: _activate(norm.again(x.detach()), slope)):
            return use(_activate(normed, slope))
    return use(_activate(normed, slope, in_place=normed is not x))  # without a norm, x itself is still needed


def _activate(values: Tensor, slope: float, in_place: bool = True) -> Tensor:
    """In place, so that half as many maps are kept for the backward pass."""
    return F.leaky_relu(values, slope, in_place) if slope else F.relu(values, in_place)


@contextmanager
def made_again(kept: Tensor, make: Callable[[], Tensor]) -> Iterator[None]:
    """Operations in the block that would keep a tensor, or what became of it in place, keep the way to make it."""
    recipe = _Recipe(kept.data_ptr(), make)
    with torch.autograd.graph.saved_tensors_hooks(recipe.pack, recipe.unpack):
        yield


class _Recipe:
    """Made once for all that ask for it in a backward pass, then let go."""

    def __init__(self, place: int, make: Callable[[], Tensor]) -> None:
        self._place, self._make = place, make
        self._asking = self._waiting = 0
        self._made: Tensor | None = None

    def pack(self, tensor: Tensor) -> object:
        if tensor.data_ptr() != self._place:
            return tensor
        self._asking += 1
        return self

    def unpack(self, packed: object) -> Tensor:
        if packed is not self:
            assert isinstance(packed, Tensor)
            return packed
        if self._made is None:
            with torch.no_grad():
                self._made, self._waiting = self._make(), self._asking
        made, self._waiting = self._made, self._waiting - 1
        if self._waiting == 0:
            self._made = None
        return made


def recompute_activations(network: nn.Module) -> None:
    """Let every block of a network make its activations again in the backward pass."""
    for block in network.modules():
        if isinstance(block, Block):
            block.recompute = True
