"""Training on made-up images, as it is to be measured: the real loop, the real views, no meaning.

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
from semco.data.split import Split
from semco.data.views import Augment
from semco.distributed.processes import Processes
from semco.methods import build_method
from semco.methods.base import Method, Pool
from semco.models import build_network, feature_size
from semco.models.activation import recompute_activations
from semco.run.folder import RunFolder
from semco.training.loop import Observer, Trainer
from semco.types import Task, Views

CHANNELS, EMBEDDING, CLASSES_IN_A_GROUP = 3, 128, 2
# Different pictures in a pool; a larger one repeats them.
PICTURES = 1000


@dataclass(frozen=True)
class Setting:
    """What is trained, and how."""

    method: str = "semco"
    backbone: str = "wrn-28-2"
    batch_size: int = 64
    mu: int = 3
    classes: int = 100
    image_size: int = 32
    pool: int = 2000
    target_views: Literal["no_grad", "joint"] = "no_grad"
    channels_last: bool = True
    keep_memory: bool = True
    recompute: Literal["on", "off"] = "on"
    compile: Literal["on", "off"] = "off"
    norm: Literal["batch", "none"] = "batch"

    def config(self) -> Config:
        method: dict[str, Any] = {"name": self.method}
        if "semantic" in Method.registry[self.method].heads:
            method["scale"] = 10.0  # whatever it is, it costs the same
        training = {
            "batch_size": self.batch_size,
            "mu": self.mu,
            "steps": 10**6,
            "log_every": 1,
            "validate_every": 10**6,
            "checkpoint_every": 10**6,
            "target_views": self.target_views,
            "compile": self.compile,
            "recompute": self.recompute,
            "device": "cpu",
        }
        model = {"backbone": self.backbone, "norm": self.norm}
        return Config.parse({"method": method, "model": model, "training": training})


class Rows:
    """Views that lie in memory channel by channel, as most code makes them."""

    def __init__(self, augment: Augment) -> None:
        self._augment = augment

    def views(self, images: Tensor, weak: int, strong: int, generator: torch.Generator) -> Views:
        views = self._augment.views(images, weak, strong, generator)
        return Views(tuple(v.contiguous() for v in views.weak), tuple(v.contiguous() for v in views.strong))


def pictures(count: int, size: int) -> Tensor:
    """Noise made smooth, so that histograms and edges are like those of photographs: (N, C, H, W) uint8."""
    side = max(2, size // 8)
    noise = torch.rand((count, CHANNELS, side, side), generator=torch.Generator().manual_seed(0))
    return nn.functional.interpolate(noise, size=(size, size), mode="bicubic").mul_(255).clamp_(0, 255).byte()


def made_up_task(setting: Setting) -> Task:
    """Classes of which every two are a group."""
    number = torch.arange(setting.classes)
    vectors = torch.randn(setting.classes, EMBEDDING, generator=torch.Generator().manual_seed(0))
    model = setting.config().model
    return Task(
        class_names=tuple(f"class {k}" for k in number.tolist()),
        embeddings=nn.functional.normalize(vectors, dim=-1),
        groups=number // CLASSES_IN_A_GROUP,
        labelled_counts=torch.ones_like(number),
        pool_size=setting.pool,
        num_features=feature_size(model, CHANNELS, setting.image_size),
    )


def made_up_batches(setting: Setting, method: Method[Any], processes: Processes) -> Batches:
    """A pool of pictures of which a part is labelled, one class after the other."""
    some = pictures(min(setting.pool, PICTURES), setting.image_size)
    images = some.repeat(-(-setting.pool // len(some)), 1, 1, 1)[: setting.pool]
    everything = torch.arange(setting.pool).numpy()
    split = Split(everything[: 4 * setting.batch_size], everything, everything[:0], "")
    half = torch.full((CHANNELS,), 0.5)
    augment = Augment(AugmentConfig(), mean=half, std=half / 2)
    return Batches(
        images,
        torch.arange(setting.pool) % setting.classes,
        split,
        method.views,
        augment if setting.channels_last else Rows(augment),
        batch_size=setting.batch_size,
        mu=setting.mu,
        seed=0,
        rank=processes.rank,
        world_size=processes.world_size,
    )


def rehearse(setting: Setting, folder: Path, observer: Observer, processes: Processes | None = None) -> Trainer:
    """A trainer of ``setting``, freshly initialised; ``observer`` hears of each step by its line."""
    processes = processes or Processes()
    config, task = setting.config(), made_up_task(setting)
    torch.manual_seed(0)
    method = build_method(config.method, task)
    size = setting.image_size
    network: nn.Module = build_network(config.model, method.heads, setting.classes, EMBEDDING, CHANNELS, size)
    if setting.recompute == "on":
        recompute_activations(network)
    if setting.channels_last:
        network = network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return Trainer(
        config,
        network,
        method,
        made_up_batches(setting, method, processes),
        task.groups,
        RunFolder.create(folder, config) if processes.is_main else RunFolder(folder),
        validate=lambda _: {},
        pool=_no_pool(method),
        observer=observer,
        processes=processes,
        keep_memory=setting.keep_memory,
    )


def _no_pool(method: Method[Any]) -> Callable[[nn.Module], Pool]:
    def refuse(_: nn.Module) -> Pool:
        raise AssertionError(f"{method.name} looks at the whole pool, which is not rehearsed")

    return refuse
