"""The network of a run: its initial weights, which part of it is trained, and what that part reads.

Shapes: N images, F features, K classes, d embedding size.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from semco.config import Config, MethodConfig
from semco.data.inputs import ImageInputs, Inputs
from semco.data.storage.folders import remove_oldest
from semco.data.views import Augment
from semco.distributed.processes import Processes, broadcast_from_main, same_error_everywhere
from semco.evaluation.probe import Probe, fit_embedding, fit_probe
from semco.evaluation.results import image_batches
from semco.experiment.problem import Problem
from semco.files import cache_folder, cache_limit
from semco.methods.base import Method
from semco.models import Network, Precision, build_network, has_weights
from semco.models.tuning import TunedNetwork, choose_tune, tune_network
from semco.run.checkpoint import digest
from semco.run.seal import digest_of
from semco.training.allocator import with_reused_memory
from semco.training.execution import prepare_network
from semco.training.features import CachedInputs, FeatureFile
from semco.training.observer import Observer
from semco.training.pool import NetworkPool

# Bytes that all cached outputs of frozen layers may take; the files that were used longest ago are removed.
MOST_CACHED = 20 * 10**9
# Bytes of memory that the outputs of frozen layers for the test images may take; they are used twice.
MOST_TEST_BYTES = 500 * 10**6


@dataclass(frozen=True)
class RunModel:
    """Builds the network of a run, in one of possibly several processes."""

    config: Config
    problem: Problem
    method: Method[MethodConfig]
    run: Path
    device: torch.device
    processes: Processes
    observer: Observer
    precision: Precision

    @cached_property
    def augment(self) -> Augment:
        return Augment(self.config.augment, torch.tensor(self.problem.mean), torch.tensor(self.problem.std))

    @cached_property
    def tuned(self) -> TunedNetwork:
        """The whole network with its initial weights; the seed decides those that are not loaded."""
        dataset, model = self.problem.dataset, self.config.model
        torch.manual_seed(self.config.training.seed)
        network = build_network(
            model,
            self.method.heads,
            dataset.num_classes,
            self.problem.label_vectors.shape[1],
            dataset.channels,
            max(dataset.image_size),
        )
        freezes_norm = model.freeze_norm == "on" or (model.freeze_norm == "auto" and self.is_pretrained)
        tuned = tune_network(network, choose_tune(model), freezes_norm)
        prepare_network(tuned.whole, self.config.training, self.device, self.precision)
        return tuned

    @cached_property
    def is_pretrained(self) -> bool:
        """Whether the weights of the backbone were loaded."""
        return has_weights(self.config.model)

    @cached_property
    def is_cached(self) -> bool:
        """Whether outputs of frozen layers are computed once.

        Not if the method changes the images itself, nor if it takes no steps and so needs no views.
        """
        return self.tuned.first > 0 and not self.method.changes_images and self.method.takes_steps

    @cached_property
    def inputs(self) -> Inputs:
        """What the trained part reads: views of the training images, or outputs of the frozen layers for them."""
        images = ImageInputs(self.problem.dataset.train_images, self.augment, self.device)
        return self._cached(images) if self.is_cached else images

    def test_inputs(self) -> Iterator[Tensor]:
        """Yield what the trained part reads for this process's share of the test images, in batches."""
        yield from self._frozen_test or self._run_frozen_test()

    @cached_property
    def _frozen_test(self) -> list[Tensor]:
        """The same, computed once; empty if nothing is cached or it would take too much memory."""
        images = self.problem.dataset.test_images
        size = 0 if images is None else len(images) * 4 * math.prod(self.inputs.shape)
        return list(self._run_frozen_test()) if self.is_cached and size <= MOST_TEST_BYTES else []

    def _run_frozen_test(self) -> Iterator[Tensor]:
        images, batch_size = self.problem.dataset.test_images, self.config.evaluation.batch_size
        assert images is not None
        share = images[self.processes.share(len(images))]
        batches = image_batches(share, self.problem.mean, self.problem.std, batch_size, self.device)
        if not self.is_cached:
            yield from batches
            return
        frozen, done = self.tuned.frozen(), 0
        with torch.inference_mode():
            for outputs in with_reused_memory(map(frozen, batches), self.device):
                yield outputs
                done += len(outputs)
                self.observer.on_loading("frozen layers, test images", done, len(share))

    @torch.inference_mode()
    def input_shape(self, images: Inputs) -> tuple[int, ...]:
        """Return the shape of what the trained part reads: an image, or an output of the frozen layers."""
        if not self.is_cached:
            return images.shape
        return tuple(self.tuned.frozen()(images.plain(torch.zeros(1, dtype=torch.int64))).shape[1:])

    def initial(self) -> Network:
        """Return what the loop trains, with its initial weights."""
        network = self.trained_part()
        if self.probe is not None and (self.config.model.heads_init != "random" or not self.method.takes_steps):
            self._set_heads(network)
        return network

    def trained_part(self) -> Network:
        """Return what the loop trains; its layers are those of the whole network, not copies."""
        return self.tuned.trained() if self.is_cached else self.tuned.whole

    def probe_part(self) -> Network:
        """Return a copy of what the loop trains, with the probe as its heads; call it before training."""
        network = copy.deepcopy(self.trained_part())
        self._set_heads(network)
        return network.eval().requires_grad_(False)

    def _set_heads(self, network: Network) -> None:
        """Set the one-hot head to the probe, and a linear semantic head to a ridge regression of the label vectors."""
        assert self.probe is not None
        set_linear(network.heads["one_hot"], self.probe.weight, self.probe.bias)
        semantic = dict(network.heads).get("semantic")
        if isinstance(semantic, nn.Linear):
            features, class_ids = self._labelled(network)
            vectors = self.problem.label_vectors[class_ids.cpu()]
            set_linear(semantic, *fit_embedding(features, vectors))

    def complete(self, trained: nn.Module) -> Network:
        """Return the whole network with the weights of the trained part."""
        assert isinstance(trained, Network)
        return self.tuned.complete(trained) if self.is_cached else trained

    @cached_property
    def seal(self) -> dict[str, Any]:
        """The seal of the problem, and a checksum of loaded weights."""
        if not self.is_pretrained:
            return self.problem.seal
        return self.problem.seal | {"initial weights": self._initial_weights}

    @cached_property
    def _initial_weights(self) -> str:
        return digest(_on_cpu(self.tuned.whole.backbone), {})

    def _cached(self, images: ImageInputs) -> CachedInputs:
        """Compute the outputs of the frozen layers, unless a run before has done so."""
        frozen, views = self.tuned.frozen(), self.config.model.cached_views
        count = len(self.problem.dataset.train_images)
        shape = self.input_shape(images)
        key = digest_of(
            [
                self.problem.seal["training images"],
                digest(_on_cpu(frozen), {}),
                views,
                *shape,
                self.problem.mean,
                self.problem.std,
                self.config.augment.model_dump(mode="json"),
                *([] if self.precision == "float32" else [self.precision]),  # so that earlier files keep their names
            ]
        )
        root = broadcast_from_main(cache_folder("features") or self.run / "features", self.processes)
        file = FeatureFile(root / key, count, views, shape)
        with same_error_everywhere(self.processes):
            if self.processes.is_main and not file.is_complete():
                self.observer.on_message(
                    f"computing the outputs of the {self.tuned.first} frozen layers once, for {1 + 2 * views} views of "
                    f"{count:,} images: {file.size / 1e9:.2f} GB in {file.folder}"
                )
                remove_oldest(root, file.folder, max(0, cache_limit(MOST_CACHED) - file.size))
                file.compute(frozen, images, self.device, partial(self.observer.on_loading, "frozen layers"))
        return CachedInputs(file, self.device)

    @cached_property
    def probe(self) -> Probe | None:
        """The linear probe on the labelled images, for loaded weights or where the configuration asks for it."""
        is_wanted = self.config.model.heads_init == "probe" or not self.method.takes_steps
        if not (self.is_pretrained or is_wanted):
            return None
        features, class_ids = self._labelled(self.trained_part())
        with same_error_everywhere(self.processes):
            fitted = (
                fit_probe(features, class_ids, self.problem.dataset.num_classes) if self.processes.is_main else None
            )
        return broadcast_from_main(fitted, self.processes)

    def _labelled(self, network: Network) -> tuple[Tensor, Tensor]:
        """Return features (N, F) and classes (N,) of the labelled images."""
        pool = self.pool(network)
        return pool.labelled().features, pool.class_ids

    def pool(self, network: nn.Module) -> NetworkPool:
        """Return the training images as the trained part sees them."""
        split, labels = self.problem.split, self.problem.dataset.train_labels
        parts = torch.from_numpy(split.labelled), torch.from_numpy(split.unlabelled)
        return NetworkPool(network, self.inputs, labels, *parts, device=self.device, processes=self.processes)


@torch.no_grad()
def set_linear(layer: nn.Module, weight: Tensor, bias: Tensor) -> None:
    """Set the weights of a linear layer."""
    assert isinstance(layer, nn.Linear)
    layer.weight.copy_(weight)
    layer.bias.copy_(bias)


def _on_cpu(module: nn.Module) -> dict[str, Tensor]:
    return {name: tensor.detach().cpu().contiguous() for name, tensor in module.state_dict().items()}
