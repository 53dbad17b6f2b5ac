"""The network of a run before training. It is built, loaded and hashed once, and every part of a run copies it."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from functools import cached_property

import torch
from torch import Tensor, nn

from semco.config import Config
from semco.experiment.problem import Problem
from semco.models import Network, build_network
from semco.run.checkpoint import digest


class InitialNetwork:
    """The initial weights of a run; those that are not loaded depend on the seed."""

    def __init__(self, config: Config, problem: Problem, heads: Sequence[str]) -> None:
        self._config, self._problem, self._heads = config, problem, heads

    @cached_property
    def _network(self) -> Network:
        dataset = self._problem.dataset
        torch.manual_seed(self._config.training.seed)
        return build_network(
            self._config.model,
            self._heads,
            dataset.num_classes,
            self._problem.label_vectors.shape[1],
            dataset.channels,
            max(dataset.image_size),
        )

    def copy(self) -> Network:
        """Return a new copy of the network."""
        return copy.deepcopy(self._network)

    @cached_property
    def backbone_digest(self) -> str:
        """A checksum of the weights of the backbone."""
        return _digest(self._network.backbone)

    def layers_digest(self, count: int) -> str:
        """Return a checksum of the weights of the first layers of the backbone."""
        if count not in self._layer_digests:
            self._layer_digests[count] = _digest(nn.ModuleList(self._network.backbone.layers()[:count]))
        return self._layer_digests[count]

    @cached_property
    def _layer_digests(self) -> dict[int, str]:
        return {}


def _digest(module: nn.Module) -> str:
    tensors: dict[str, Tensor] = {name: tensor.contiguous() for name, tensor in module.state_dict().items()}
    return digest(tensors, {})
