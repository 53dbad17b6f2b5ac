"""Inputs of the trained part of a network: views of images, or outputs of the frozen layers, computed once.

They do not depend on which images are labelled, so a run and the runs of its cross-validation share them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
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
from semco.evaluation.results import image_batches
from semco.experiment.initial import InitialNetwork
from semco.experiment.problem import Problem
from semco.files import cache_folder, cache_limit
from semco.methods.base import FittedMethod, Method
from semco.models.engines import compile_layers
from semco.models.tuning import TunedNetwork, tune_network
from semco.run.seal import digest_of
from semco.training.allocator import with_reused_memory
from semco.training.execution import prepare_network
from semco.training.features import CachedInputs, CloseUpInputs, FeatureFile, ViewInputs
from semco.training.observer import Observer

# Limit in bytes on all cached outputs of frozen layers; the least recently used files are removed.
MOST_CACHED = 20 * 10**9
# Limit in bytes on those for the test images; larger ones are not stored but computed twice per run.
MOST_TEST_BYTES = 2 * 10**9
# The parts of the data, as the seal of the problem names them.
TRAINING, TEST = "training images", "test images"
# Names of the passes through the frozen layers, for their progress.
PROGRESS, TEST_PROGRESS, VIEW_PROGRESS = "frozen layers", "frozen layers, test images", "looking at the photos"


@dataclass(frozen=True)
class RunInputs:
    """Inputs of the trained part, in one of possibly several processes."""

    config: Config
    problem: Problem
    method: type[Method[MethodConfig]]
    initial: InitialNetwork
    run: Path
    device: torch.device
    processes: Processes
    observer: Observer

    def tune(self) -> TunedNetwork:
        """Return a copy of the whole network with its initial weights, some of its layers frozen."""
        model = self.config.model
        tune = "heads" if self.is_fitted else model.tune
        tuned = tune_network(self.initial.copy(), tune, model.freeze_norm)
        prepare_network(tuned.whole, self.config.training, self.device)
        return tuned

    @cached_property
    def _tuned(self) -> TunedNetwork:
        """The network whose frozen layers run here; it is not trained."""
        return self.tune()

    @property
    def is_fitted(self) -> bool:
        """Whether the method takes no steps and therefore trains no layer of the backbone."""
        return issubclass(self.method, FittedMethod)

    @cached_property
    def is_cached(self) -> bool:
        """Whether outputs of frozen layers are computed once; False if the method changes the images itself."""
        return self._tuned.first > 0 and not self.method.changes_images

    @cached_property
    def training(self) -> Inputs:
        """The training images; for a fitted method, the features (V, F) of their views."""
        if self.is_fitted:
            return self.views_of_training(has_close_up=self.config.method.has_close_up)
        images, file = self._views_of(self.problem.dataset.train_images), self.training_file
        if file is None:
            return images
        views = f"{file.views_per_image} views of " if file.views else ""
        return self._cached(file, images, f"{views}{file.images:,} training images", PROGRESS)

    @cached_property
    def training_file(self) -> FeatureFile | None:
        """The file with the outputs of the frozen layers for the training images, if they are computed once."""
        if not self.is_cached:
            return None
        count = len(self.problem.dataset.train_images)
        augment = self.config.augment.model_dump(mode="json")
        return self._feature_file(TRAINING, count, self.config.model.cached_views, augment)

    @cached_property
    def test_file(self) -> FeatureFile | None:
        """The same for the test images, unless there are none or the file would be too large.

        It must not push the file of the training images, which every run needs, out of the cache.
        """
        images = self.problem.dataset.test_images
        if images is None or self.training_file is None:
            return None
        file = self._feature_file(TEST, len(images), views=0)
        most = min(MOST_TEST_BYTES, cache_limit(MOST_CACHED) - self.training_file.size)
        return file if file.size <= most else None

    def test(self) -> Iterator[Tensor]:
        """Yield what the trained part reads for this process's share of the test images, in batches."""
        images, batch_size = self.problem.dataset.test_images, self.config.evaluation.batch_size
        assert images is not None
        share = self.processes.share(len(images))
        stored = (
            self.views_of_test(has_close_up=self.config.method.has_close_up) if self.is_fitted else self._cached_test
        )
        if stored is not None:
            size = images_at_a_time(batch_size, stored.shape)
            for start in range(share.start, share.stop, size):
                yield stored.plain(torch.arange(start, min(start + size, share.stop)))
            return
        batches = image_batches(images[share], self.problem.mean, self.problem.std, batch_size, self.device)
        yield from self._run_frozen(batches, len(images[share])) if self.is_cached else batches

    def views_of_training(self, *, has_close_up: bool) -> Inputs:
        """Return the features of the views of the training images; they are computed unless they are stored."""
        return ViewInputs([self._view(TRAINING, each) for each in ((False, True) if has_close_up else (False,))])

    def views_of_test(self, *, has_close_up: bool) -> Inputs | None:
        """The same for the test images; None if there are none."""
        if self.problem.dataset.test_images is None:
            return None
        return ViewInputs([self._view(TEST, each) for each in ((False, True) if has_close_up else (False,))])

    def view_files(self, *, has_close_up: bool) -> list[FeatureFile]:
        """Return the feature files that a fitted method reads, in the order in which it uses them."""
        parts = [TRAINING] if self.problem.dataset.test_images is None else [TRAINING, TEST]
        each = [(part, is_close_up) for is_close_up in (False, True) for part in parts]
        return [self._view_file(*one) for one in each if has_close_up or not one[1]]

    def _view_file(self, part: str, is_close_up: bool) -> FeatureFile:
        images = self._images_of(part)
        return self._feature_file(part, len(images), views=0, augment={"view": "close-up"} if is_close_up else None)

    def _images_of(self, part: str) -> Tensor:
        dataset = self.problem.dataset
        images = dataset.train_images if part == TRAINING else dataset.test_images
        assert images is not None
        return images

    def _view(self, part: str, is_close_up: bool) -> CachedInputs:
        if (part, is_close_up) not in self._views:
            file, plain = self._view_file(part, is_close_up), self._views_of(self._images_of(part))
            images: Inputs = CloseUpInputs(plain) if is_close_up else plain
            kind = "the close-up of " if is_close_up else ""
            self._views[part, is_close_up] = self._cached(file, images, f"{kind}{file.images:,} {part}", VIEW_PROGRESS)
        return self._views[part, is_close_up]

    @cached_property
    def _views(self) -> dict[tuple[str, bool], CachedInputs]:
        return {}

    @torch.inference_mode()
    def shape_for(self, images: Inputs) -> tuple[int, ...]:
        """Return the shape of one input of the trained part: an image, or an output of the frozen layers."""
        if not self.is_cached:
            return images.shape
        # By torch, because another engine need not be loaded if all outputs are stored.
        return tuple(self._tuned.frozen()(images.plain(torch.zeros(1, dtype=torch.int64))).shape[1:])

    @cached_property
    def frozen(self) -> nn.Module:
        """The frozen layers, as the engine of the configuration computes them."""
        dataset = self.problem.dataset
        shape = (dataset.channels, *dataset.image_size)
        return compile_layers(self._tuned.frozen(), shape, self.config.training.frozen_engine)

    @cached_property
    def _augment(self) -> Augment:
        return Augment(self.config.augment, torch.tensor(self.problem.mean), torch.tensor(self.problem.std))

    def _views_of(self, images: Tensor) -> ImageInputs:
        return ImageInputs(images, self._augment, self.device)

    @torch.inference_mode()
    def _run_frozen(self, batches: Iterable[Tensor], count: int) -> Iterator[Tensor]:
        done = 0
        for outputs in with_reused_memory(map(self.frozen, batches), self.device):
            yield outputs
            done += len(outputs)
            self.observer.on_loading(TEST_PROGRESS, done, count)

    @cached_property
    def _cached_test(self) -> CachedInputs | None:
        images = self.problem.dataset.test_images
        if images is None or self.test_file is None:
            return None
        return self._cached(self.test_file, self._views_of(images), f"{len(images):,} test images", TEST_PROGRESS)

    @cached_property
    def features_folder(self) -> Path:
        """The folder of all stored outputs of frozen layers. All processes must read this when it is first used."""
        return broadcast_from_main(cache_folder("features") or self.run / "features", self.processes)

    @cached_property
    def _frozen_shape(self) -> tuple[int, ...]:
        return self.shape_for(self._views_of(self.problem.dataset.train_images[:1]))

    def _feature_file(self, sealed: str, count: int, views: int, augment: dict[str, Any] | None = None) -> FeatureFile:
        """Return the file for ``count`` images, whose checksum has this name in the seal of the problem."""
        key = digest_of(
            [
                self.problem.data_seal.values[sealed],
                self.initial.layers_digest(self._tuned.first),
                self.config.training.precision,
                self.config.training.frozen_engine,
                views,
                augment,
                *self._frozen_shape,
                self.problem.mean,
                self.problem.std,
            ]
        )
        return FeatureFile(self.features_folder / key, count, views, self._frozen_shape)

    def _cached(self, file: FeatureFile, images: Inputs, what: str, name: str) -> CachedInputs:
        """Compute the outputs of the frozen layers unless an earlier run did; ``name`` is shown with the progress."""
        with same_error_everywhere(self.processes):
            if self.processes.is_main and not file.is_complete():
                self.observer.on_message(self._announcement(file, what))
                remove_oldest(self.features_folder, file.folder, max(0, cache_limit(MOST_CACHED) - file.size))
                file.compute(self.frozen, images, self.device, self._progress_of(file, name))
        try:
            return CachedInputs(file, self.device)
        except FileNotFoundError:  # another run has just removed it to make room for its own file
            if self.processes.world_size > 1:
                raise
            return self._cached(file, images, what, name)

    def _progress_of(self, file: FeatureFile, name: str) -> Callable[[int, int], None]:
        """Return the function that reports progress; with several views, as a part of all views of all images."""
        if not self.is_fitted:
            return partial(self.observer.on_loading, name)
        files = self.view_files(has_close_up=self.config.method.has_close_up)
        before, total = sum(each.images for each in files[: files.index(file)]), sum(each.images for each in files)
        return lambda done, _: self.observer.on_loading(name, before + done, total)

    def _announcement(self, file: FeatureFile, what: str) -> str:
        if self.is_fitted:
            return f"the network looks once at {what}; a later run finds what it saw"
        return (
            f"computing the outputs of the {self._tuned.first} frozen layers once, for {what}: "
            f"{data_size(file.size)} in {file.folder}"
        )
