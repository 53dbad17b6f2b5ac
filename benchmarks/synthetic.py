"""A trainer on synthetic images: the real training loop and real views, but images and classes without meaning.

Shapes: N images, C channels, H height, W width, K classes, d embedding size.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from semco.config import AugmentConfig, Config
from semco.data.batches import Batches
from semco.data.inputs import ImageInputs, Inputs
from semco.data.split import Split
from semco.data.views import Augment
from semco.distributed.processes import Processes
from semco.methods import build_method
from semco.methods.base import Method, Pool
from semco.models import SMALL_SIDE, build_network, feature_size
from semco.models.activation import recompute_activations
from semco.models.tuning import Tune, TunedNetwork, tune_network
from semco.run.folder import RunFolder
from semco.training.features import CachedInputs, FeatureFile
from semco.training.loop import Trainer
from semco.training.observer import Observer
from semco.types import Task, Views

CPU = torch.device("cpu")
CHANNELS, EMBEDDING_SIZE, CLASSES_PER_GROUP = 3, 128, 2
# Number of different images in a pool; a larger pool repeats them.
DIFFERENT_IMAGES = 1000


@dataclass(frozen=True)
class Setting:
    """What is trained, and how."""

    method: str = "semco_plus"
    backbone: str = "wrn-28-2"
    batch_size: int = 64
    mu: int = 3
    classes: int = 100
    image_size: int = 32
    pool: int = 2000
    target_views: Literal["no_grad", "joint"] = "no_grad"
    channels_last: bool = True
    reuse_memory: bool = True
    recompute: Literal["on", "off"] = "on"
    norm: Literal["batch", "none"] = "batch"
    tune: Tune = "all"
    freeze_norm: bool = False
    cached_views: int = 2
    skip: Literal["on", "off"] = "off"
    retains: bool = True  # whether a pseudo-label can reach its threshold, of SemCo+

    def config(self) -> Config:
        """Return the configuration of a run that logs every step and never validates or saves."""
        method: dict[str, Any] = {"name": self.method}
        if "semantic" in Method.registry[self.method].heads:
            method["scale"] = 10.0  # the value does not change the cost of a step
        if not self.retains:
            method["thresholds"] = {"rule": "fixed", "tau_e": 1.0, "tau_o": 1.0}
        training = {
            "batch_size": self.batch_size,
            "mu": self.mu,
            "steps": 10**6,
            "log_every": 1,
            "validate_every": 10**6,
            "checkpoint_every": 10**6,
            "target_views": self.target_views,
            "recompute": self.recompute,
            "skip": self.skip,
            "device": "cpu",
            "precision": "float32",
        }
        # Loaded weights would not change the cost of a step.
        model = {
            "backbone": self.backbone,
            "norm": self.norm,
            "pretrained": "none",
            "tune": self.tune,
            "stem": "small" if self.image_size <= SMALL_SIDE else "large",
            "freeze_norm": False,
            "heads_init": "random",
        }
        optim = {"lr": 0.03, "backbone_lr": 0.03, "start_decay": 0.0}
        return Config.parse({"method": method, "model": model, "optim": optim, "training": training})


class ChannelsFirst:
    """Makes views in the usual memory format, one channel after the other."""

    def __init__(self, augment: Augment) -> None:
        self._augment = augment

    def views(self, images: Tensor, weak: int, strong: int, generator: torch.Generator) -> Views:
        views = self._augment.views(images, weak, strong, generator)
        return Views(tuple(v.contiguous() for v in views.weak), tuple(v.contiguous() for v in views.strong))

    def plain(self, images: Tensor) -> Tensor:
        return self._augment.plain(images).contiguous()


def make_images(count: int, size: int) -> Tensor:
    """Return smooth noise, whose histograms and edges are like those of photographs: (N, C, H, W) uint8."""
    side = max(2, size // 8)
    noise = torch.rand((count, CHANNELS, side, side), generator=torch.Generator().manual_seed(0))
    return nn.functional.interpolate(noise, size=(size, size), mode="bicubic").mul_(255).clamp_(0, 255).byte()


def make_task(setting: Setting) -> Task:
    """Return a task with random label vectors and two classes per group."""
    class_ids = torch.arange(setting.classes)
    vectors = torch.randn(setting.classes, EMBEDDING_SIZE, generator=torch.Generator().manual_seed(0))
    return Task(
        class_names=tuple(f"class {k}" for k in class_ids.tolist()),
        label_vectors=nn.functional.normalize(vectors, dim=-1),
        group_ids=class_ids // CLASSES_PER_GROUP,
        labelled_counts=torch.ones_like(class_ids),
        pool_size=setting.pool,
        num_features=feature_size(setting.config().model, CHANNELS, setting.image_size),
    )


def make_inputs(setting: Setting) -> ImageInputs:
    """Return views of a synthetic pool."""
    different = make_images(min(setting.pool, DIFFERENT_IMAGES), setting.image_size)
    images = different.repeat(-(-setting.pool // len(different)), 1, 1, 1)[: setting.pool]
    half = torch.full((CHANNELS,), 0.5)
    augment = Augment(AugmentConfig(), mean=half, std=half / 2)
    return ImageInputs(images, augment if setting.channels_last else ChannelsFirst(augment), CPU)


def make_batches(setting: Setting, method: Method[Any], inputs: Inputs, processes: Processes) -> Batches:
    """Return the batches of a synthetic pool, of which four batches of images are labelled."""
    positions = torch.arange(setting.pool).numpy()
    split = Split(positions[: 4 * setting.batch_size], positions, positions[:0], "")
    return Batches(
        inputs,
        torch.arange(setting.pool) % setting.classes,
        split,
        method.views,
        batch_size=setting.batch_size,
        mu=setting.mu,
        seed=0,
        rank=processes.rank,
        world_size=processes.world_size,
    )


def make_network(setting: Setting, method: Method[Any]) -> TunedNetwork:
    """Return the whole network with initial weights, and which part of it is trained."""
    config, size = setting.config(), setting.image_size
    network = build_network(config.model, method.heads, setting.classes, EMBEDDING_SIZE, CHANNELS, size)
    if setting.recompute == "on":
        recompute_activations(network)
    if setting.channels_last:
        network = network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return tune_network(network, setting.tune, setting.freeze_norm)


def make_feature_file(setting: Setting, tuned: TunedNetwork, folder: Path) -> FeatureFile:
    """Return a file for the outputs of the frozen layers, which is not computed yet."""
    shape = tuned.frozen()(torch.zeros(1, CHANNELS, setting.image_size, setting.image_size)).shape
    return FeatureFile(folder, setting.pool, setting.cached_views, tuple(shape[1:]))


def compute_inputs(setting: Setting, tuned: TunedNetwork, folder: Path) -> CachedInputs:
    """Compute the outputs of the frozen layers into a file in ``folder``."""
    file = make_feature_file(setting, tuned, folder)
    file.compute(tuned.frozen(), make_inputs(setting), CPU, lambda *_: None)
    return CachedInputs(file, CPU)


def build_trainer(setting: Setting, folder: Path, observer: Observer, processes: Processes | None = None) -> Trainer:
    """Return a trainer with initial weights; ``observer`` receives one line of metrics per step."""
    processes = processes or Processes()
    config, task = setting.config(), make_task(setting)
    torch.manual_seed(0)
    method = build_method(config.method, task)
    tuned = make_network(setting, method)
    inputs: Inputs
    if tuned.first:
        inputs, network = compute_inputs(setting, tuned, folder.with_name("features")), tuned.trained()
    else:
        inputs, network = make_inputs(setting), tuned.whole
    return Trainer(
        config,
        network,
        method,
        make_batches(setting, method, inputs, processes),
        task.group_ids,
        RunFolder.create(folder, config, config) if processes.is_main else RunFolder(folder),
        validate=lambda _: {},
        pool=_refuse_pool(method),
        observer=observer,
        processes=processes,
        reuse_memory=setting.reuse_memory,
    )


def _refuse_pool(method: Method[Any]) -> Callable[[nn.Module], Pool]:
    """Return a function that fails if the method asks for the whole pool, which is not measured here."""

    def refuse(_: nn.Module) -> Pool:
        raise AssertionError(f"{method.name} evaluates the whole pool, which this measurement does not support")

    return refuse
