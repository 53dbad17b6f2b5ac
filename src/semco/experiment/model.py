"""The network of a run: its initial weights, which part of it is trained, and what that part reads.

Shapes: N images, F features, K classes, d embedding size.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from semco.config import Config, MethodConfig
from semco.data.inputs import ImageInputs, Inputs, images_at_a_time
from semco.data.storage.folders import remove_oldest
from semco.data.views import Augment
from semco.distributed.processes import Processes, broadcast_from_main, same_error_everywhere
from semco.errors import data_size
from semco.evaluation.probe import Probe, fit_embedding, fit_probe, with_embedding_length
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
# Bytes that those for the test images may take; larger ones are computed anew each time, which is twice per run.
MOST_TEST_BYTES = 2 * 10**9
# Names of the passes through the frozen layers, for their progress.
PROGRESS, TEST_PROGRESS = "frozen layers", "frozen layers, test images"


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
        """Whether outputs of frozen layers are computed once: not if the method changes the images itself."""
        return self.tuned.first > 0 and not self.method.changes_images

    def _views_of(self, images: Tensor) -> ImageInputs:
        return ImageInputs(images, self.augment, self.device)

    @cached_property
    def inputs(self) -> Inputs:
        """What the trained part reads: views of the training images, or outputs of the frozen layers for them."""
        images, file = self._views_of(self.problem.dataset.train_images), self.training_file
        if file is None:
            return images
        views = f"{file.views_per_image} views of " if file.views else ""
        return self._cached(file, images, f"{views}{file.images:,} training images", PROGRESS)

    @cached_property
    def training_file(self) -> FeatureFile | None:
        """The file with the outputs of the frozen layers for the training images, if they are computed once.

        A method without steps needs the plain images only.
        """
        if not self.is_cached:
            return None
        count = len(self.problem.dataset.train_images)
        if not self.method.takes_steps:
            return self._feature_file("training images", count, views=0)
        augment = self.config.augment.model_dump(mode="json")
        return self._feature_file("training images", count, self.config.model.cached_views, augment)

    @cached_property
    def test_file(self) -> FeatureFile | None:
        """The same for the test images, unless there are none or the file would be too large.

        It must not push the file of the training images, which every run needs, out of the cache.
        """
        images = self.problem.dataset.test_images
        if images is None or self.training_file is None:
            return None
        file = self._feature_file("test images", len(images), views=0)
        most = min(MOST_TEST_BYTES, cache_limit(MOST_CACHED) - self.training_file.size)
        return file if file.size <= most else None

    def test_inputs(self) -> Iterator[Tensor]:
        """Yield what the trained part reads for this process's share of the test images, in batches."""
        images, batch_size = self.problem.dataset.test_images, self.config.evaluation.batch_size
        assert images is not None
        share = self.processes.share(len(images))
        if self._cached_test is not None:
            size = images_at_a_time(batch_size, self._cached_test.shape)
            for start in range(share.start, share.stop, size):
                yield self._cached_test.plain(torch.arange(start, min(start + size, share.stop)))
            return
        batches = image_batches(images[share], self.problem.mean, self.problem.std, batch_size, self.device)
        yield from self._run_frozen(batches, len(images[share])) if self.is_cached else batches

    @torch.inference_mode()
    def _run_frozen(self, batches: Iterable[Tensor], count: int) -> Iterator[Tensor]:
        done = 0
        for outputs in with_reused_memory(map(self.tuned.frozen(), batches), self.device):
            yield outputs
            done += len(outputs)
            self.observer.on_loading(TEST_PROGRESS, done, count)

    @cached_property
    def _cached_test(self) -> CachedInputs | None:
        images = self.problem.dataset.test_images
        if images is None or self.test_file is None:
            return None
        return self._cached(self.test_file, self._views_of(images), f"{len(images):,} test images", TEST_PROGRESS)

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
            set_linear(semantic, *with_embedding_length(*fit_embedding(features, vectors), features))

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

    @cached_property
    def _features(self) -> Path:
        """The folder of all files of outputs of frozen layers."""
        return broadcast_from_main(cache_folder("features") or self.run / "features", self.processes)

    @cached_property
    def _frozen_weights(self) -> str:
        return digest(_on_cpu(self.tuned.frozen()), {})

    @cached_property
    def _frozen_shape(self) -> tuple[int, ...]:
        return self.input_shape(self._views_of(self.problem.dataset.train_images[:1]))

    def _feature_file(self, sealed: str, count: int, views: int, augment: dict[str, Any] | None = None) -> FeatureFile:
        """Return the file for ``count`` images, which the seal of the problem has under this name."""
        key = digest_of(
            [
                self.problem.seal[sealed],
                self._frozen_weights,
                views,
                *self._frozen_shape,
                self.problem.mean,
                self.problem.std,
                *([] if augment is None else [augment]),
                *([] if self.precision == "float32" else [self.precision]),  # so that earlier files keep their names
            ]
        )
        return FeatureFile(self._features / key, count, views, self._frozen_shape)

    def _cached(self, file: FeatureFile, images: Inputs, what: str, name: str) -> CachedInputs:
        """Compute the outputs of the frozen layers, unless a run before has done so; ``name`` is for the progress."""
        with same_error_everywhere(self.processes):
            if self.processes.is_main and not file.is_complete():
                self.observer.on_message(
                    f"computing the outputs of the {self.tuned.first} frozen layers once, for {what}: "
                    f"{data_size(file.size)} in {file.folder}"
                )
                remove_oldest(self._features, file.folder, max(0, cache_limit(MOST_CACHED) - file.size))
                report = partial(self.observer.on_loading, name)
                file.compute(self.tuned.frozen(), images, self.device, report)
        try:
            return CachedInputs(file, self.device)
        except FileNotFoundError:  # another run has just removed it, to make room for its own
            if self.processes.world_size > 1:
                raise
            return self._cached(file, images, what, name)

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
