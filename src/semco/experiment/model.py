"""The network of a run: its initial weights, which part of it is trained, and the linear probe beside it.

Shapes: N images, F features, K classes, d embedding size.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from semco.distributed.processes import broadcast_from_main, same_error_everywhere
from semco.experiment.initial import fit_embedding, with_embedding_length
from semco.experiment.inputs import RunInputs
from semco.experiment.problem import Problem
from semco.methods.linear_probe import Probe, fit_probe
from semco.models import Network, has_weights
from semco.models.tuning import TunedNetwork
from semco.training.pool import NetworkPool


@dataclass(frozen=True)
class RunModel:
    """The networks of a run, in one of possibly several processes."""

    inputs: RunInputs
    problem: Problem  # has the labels that the run may use; the inputs do not depend on them

    @cached_property
    def _tuned(self) -> TunedNetwork:
        return self.inputs.tune()

    @cached_property
    def is_pretrained(self) -> bool:
        """Whether the weights of the backbone were loaded."""
        return has_weights(self.inputs.config.model)

    @property
    def is_frozen(self) -> bool:
        """Whether weights of the backbone were loaded and no layer of it is trained."""
        return self.is_pretrained and self._tuned.first == len(self._tuned.whole.backbone.layers())

    def initial(self) -> Network:
        """Return what the loop trains, with its initial weights."""
        network = self.trained_part()
        if self.probe is not None and self.inputs.config.model.heads_init == "probe":
            self._set_heads(network)
        return network

    def trained_part(self) -> Network:
        """Return what the loop trains; its layers are those of the whole network, not copies."""
        return self._tuned.trained() if self.inputs.is_cached else self._tuned.whole

    def probe_part(self) -> Network:
        """Return a copy of what the loop trains, with the probe as its heads; call it before training."""
        network = copy.deepcopy(self.trained_part())
        self._set_heads(network)
        return network.eval().requires_grad_(False)

    def _set_heads(self, network: Network) -> None:
        """Initialise the one-hot head with the probe and a linear semantic head with a ridge regression."""
        assert self.probe is not None
        set_linear(network.heads["one_hot"], self.probe.head.weight, self.probe.head.bias)
        semantic = dict(network.heads).get("semantic")
        if isinstance(semantic, nn.Linear):
            features, class_ids = self._labelled(network)
            vectors = self.problem.label_vectors[class_ids.cpu()]
            set_linear(semantic, *with_embedding_length(*fit_embedding(features, vectors), features))

    def complete(self, trained: nn.Module) -> Network:
        """Return the whole network with the weights of the trained part."""
        assert isinstance(trained, Network)
        return self._tuned.complete(trained) if self.inputs.is_cached else trained

    @cached_property
    def seal(self) -> dict[str, Any]:
        """The checksums of the problem, and one of loaded weights."""
        if not self.is_pretrained:
            return self.problem.seal
        return self.problem.seal | {"initial weights": self.inputs.initial.backbone_digest}

    @cached_property
    def probe(self) -> Probe | None:
        """The linear probe on the labelled images, if weights were loaded or the configuration asks for it."""
        inputs = self.inputs
        if not (self.is_pretrained or inputs.config.model.heads_init == "probe"):
            return None
        features, class_ids = self._labelled(self.trained_part())
        fitted: Probe | None = None
        with same_error_everywhere(inputs.processes):
            if inputs.processes.is_main:
                fitted = fit_probe(features, class_ids, self.problem.dataset.num_classes)
        return broadcast_from_main(fitted, inputs.processes)

    def _labelled(self, network: Network) -> tuple[Tensor, Tensor]:
        """Return features (N, F) and classes (N,) of the labelled images."""
        pool = self.pool(network)
        return pool.labelled().features, pool.class_ids

    def pool(self, network: nn.Module) -> NetworkPool:
        """Return the training images as inputs of the trained part."""
        split, labels, inputs = self.problem.split, self.problem.dataset.train_labels, self.inputs
        parts = torch.from_numpy(split.labelled), torch.from_numpy(split.unlabelled)
        return NetworkPool(network, inputs.training, labels, *parts, device=inputs.device, processes=inputs.processes)


@torch.no_grad()
def set_linear(layer: nn.Module, weight: Tensor, bias: Tensor) -> None:
    """Set the weights of a linear layer."""
    assert isinstance(layer, nn.Linear)
    layer.weight.copy_(weight)
    layer.bias.copy_(bias)
