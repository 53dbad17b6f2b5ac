"""Runs the network for a method: joins views, splits outputs, decides about gradients.

Shapes: N images of all views together.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from typing import Literal, cast

import torch
from torch import Tensor, nn

from semco.models import Network
from semco.models.normalisation import WarmBatchNorm2d
from semco.training.skipping import TargetsFirst
from semco.types import EveryImage, Outputs, Passes


class NetworkForward:
    """`semco.methods.base.Forward` over a network and its EMA copy.

    ``target_views`` decides how views in ``no_grad`` run: in a pass of their own without gradient, which saves their
    backward pass, or jointly with the others, so that normalisation sees all views as one batch. A pass of their own
    does not update the running statistics, because the weights are trained with those of the other pass
    (docs/lab/speed.md: worth a point of accuracy in short runs). ``parts``: leave out images whose pseudo-labels have
    zero weight, in such steps (`semco.training.skipping`); None runs all.
    """

    def __init__(
        self,
        network: nn.Module,
        average: nn.Module,
        target_views: Literal["no_grad", "joint"] = "no_grad",
        parts: int | None = None,
    ) -> None:
        self._network = network
        self._average = average
        self._joint = target_views == "joint"
        self._parts = parts

    def __call__(self, *, no_grad: Mapping[str, Tensor] | None = None, **views: Tensor) -> dict[str, Outputs]:
        targets = dict(no_grad or {})
        if targets and views and self._joint:
            joined = self._run(self._network, {**views, **targets})
            return {name: out.detach() if name in targets else out for name, out in joined.items()}
        outputs: dict[str, Outputs] = {}
        if targets:
            with torch.no_grad(), frozen_statistics(self._network):
                outputs |= self._run(self._network, targets)
        if views:
            outputs |= self._run(self._network, views)
        return outputs

    def begin(self, *, no_grad: Mapping[str, Tensor], **views: Tensor) -> Passes:
        if self._joint or self._parts is None:
            return EveryImage(self(no_grad=no_grad, **views))
        return TargetsFirst(self(no_grad=no_grad), self, views, self._parts)

    @torch.no_grad()
    def teacher(self, **views: Tensor) -> dict[str, Outputs]:
        return self._run(self._average, views)

    def without_statistics(self, **views: Tensor) -> dict[str, Outputs]:
        with frozen_statistics(self._network):
            return self._run(self._network, views)

    def heads(self, features: Tensor) -> Outputs:
        return cast(Network, self._network).heads_from(features)

    def _run(self, network: nn.Module, views: Mapping[str, Tensor]) -> dict[str, Outputs]:
        images = next(iter(views.values())) if len(views) == 1 else torch.cat(list(views.values()))
        return split_outputs(network(images), {name: len(view) for name, view in views.items()})


def split_outputs(outputs: Outputs, sizes: Mapping[str, int]) -> dict[str, Outputs]:
    """Return the outputs of a joined batch (N, ...) by view."""
    parts: dict[str, tuple[Tensor, ...]] = {}
    for field in fields(outputs):
        tensor = getattr(outputs, field.name)
        if tensor is not None:
            parts[field.name] = tensor.split(list(sizes.values()))
    return {name: Outputs(**{k: v[i] for k, v in parts.items()}) for i, name in enumerate(sizes)}


@contextmanager
def frozen_statistics(network: nn.Module) -> Iterator[None]:
    """Use batch statistics as in training, but keep the running statistics as they are."""
    layers = [m for m in network.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)]
    momenta = [layer.momentum for layer in layers]
    # Ours count no update of momentum 0; torch's do.
    counting = [m for m in layers if m.num_batches_tracked is not None and not isinstance(m, WarmBatchNorm2d)]
    counts = [m.num_batches_tracked.clone() for m in counting if m.num_batches_tracked is not None]
    for layer in layers:
        layer.momentum = 0.0
    try:
        yield
    finally:
        for layer, momentum in zip(layers, momenta, strict=True):
            layer.momentum = momentum
        for layer, count in zip(counting, counts, strict=True):
            assert layer.num_batches_tracked is not None
            layer.num_batches_tracked.copy_(count)
