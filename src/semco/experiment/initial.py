"""The network of a run before training: built, loaded and hashed once, with a semantic head fitted to the labels."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from functools import cached_property

import torch
from threadpoolctl import threadpool_limits
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


PENALTIES = (0.1, 1.0, 10.0, 100.0, 1000.0)
# Length of the outputs with which a semantic head starts. Its loss, 3 (1 - cosine), has the curvature 3 / length²; for
# this length that is 1/4, the largest p (1 - p) in the curvature of a cross-entropy. So the learning rate of the
# one-hot head suits it. With outputs of length 1 the first steps of a short run destroyed it (docs/lab/pretrained.md).
EMBEDDING_LENGTH = 12**0.5


def fit_embedding(features: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Return weight (d, F) and bias (d,) of a ridge regression of label vectors (N, d) on features (N, F)."""
    from sklearn.linear_model import RidgeCV

    with threadpool_limits(1):
        model = RidgeCV(alphas=PENALTIES).fit(features.cpu().double().numpy(), targets.cpu().double().numpy())
    return torch.from_numpy(model.coef_).float(), torch.from_numpy(model.intercept_).float()


def with_embedding_length(weight: Tensor, bias: Tensor, features: Tensor) -> tuple[Tensor, Tensor]:
    """Return weight (d, F) and bias (d,) times a number that makes the outputs for features (N, F) as long as a
    semantic head needs, in the root mean square; their directions, and so all predictions, stay the same."""
    outputs = features.cpu().float() @ weight.T + bias
    length = outputs.square().sum(dim=1).mean().sqrt().clamp_min(1e-6)
    return EMBEDDING_LENGTH / length * weight, EMBEDDING_LENGTH / length * bias
