"""Which layers of a network are trained: all, the top of the backbone and the heads, or the heads alone.

Shapes: N images, F features.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from torch import nn

from semco.models.backbone import Backbone
from semco.models.network import Network

Tune = Literal["all", "top", "heads"]


class Layers(Backbone):
    """Consecutive layers of a backbone."""

    first_top_layer = 0

    def __init__(self, layers: Sequence[nn.Module], out_features: int) -> None:
        super().__init__()
        self.parts = nn.ModuleList(layers)
        self.out_features = out_features

    def layers(self) -> list[nn.Module]:
        return list(self.parts)


@dataclass(frozen=True)
class TunedNetwork:
    """A network of which the first layers of the backbone are frozen."""

    whole: Network
    first: int  # the number of frozen layers, which is the index of the first trained one

    def frozen(self) -> Layers:
        """Return the frozen layers in evaluation mode; their outputs are the inputs of `trained`."""
        return self._part(slice(self.first)).eval()

    def trained(self) -> Network:
        """Return the trained layers and the heads as a network of their own."""
        part = Network(self._part(slice(self.first, None)), dict(self.whole.heads))
        own = set(part.modules())
        part.evaluated_layers = [layer for layer in self.whole.evaluated_layers if layer in own]
        return part

    def complete(self, trained: Network) -> Network:
        """Return a copy of the whole network with the weights of a trained part."""
        whole = copy.deepcopy(self.whole)
        for layer, source in zip(whole.backbone.layers()[self.first :], trained.backbone.layers(), strict=True):
            layer.load_state_dict(source.state_dict())
        whole.heads, whole.transform = copy.deepcopy(trained.heads), copy.deepcopy(trained.transform)
        return whole.eval().requires_grad_(False)

    def _part(self, which: slice) -> Layers:
        part = Layers(self.whole.backbone.layers()[which], self.whole.backbone.out_features)
        part.precision = self.whole.backbone.precision
        return part


def tune_network(network: Network, tune: Tune, freeze_norm: bool) -> TunedNetwork:
    """Freeze the layers of a network that are not trained, and with ``freeze_norm`` the statistics of all its norms."""
    layers = network.backbone.layers()
    first = {"all": 0, "top": network.backbone.first_top_layer, "heads": len(layers)}[tune]
    for layer in layers[:first]:
        layer.requires_grad_(False)
    norms = [part for part in network.backbone.modules() if isinstance(part, nn.modules.batchnorm._BatchNorm)]
    network.evaluated_layers = [*layers[:first], *(norms if freeze_norm else [])]
    network.train(network.training)
    return TunedNetwork(network, first)
