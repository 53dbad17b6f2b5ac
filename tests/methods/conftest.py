"""An honest but small stand-in for the loop: tasks, batches and a `Forward` over a tiny network.

Shapes: B labelled images, U unlabelled images, K classes, d embedding size.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from semco.config import MethodConfig, ModelConfig
from semco.methods import Method, build_method
from semco.models import Network, build_network
from semco.models.tuning import Tune, TunedNetwork, tune_network
from semco.types import Batch, EveryImage, Outputs, Progress, StepResult, Task, ViewCounts, Views
from tests.tiny_backbone import TinyBackbone

SIDE, DIM, B, U, POOL = 8, 6, 4, 12, 40


class TinyForward:
    """Each view in a pass of its own; remembers what was asked."""

    def __init__(self, network: nn.Module) -> None:
        self.network = network
        self._initial = {name: tensor.clone() for name, tensor in network.state_dict().items()}
        self.with_gradient: list[Tensor] = []
        self.without_gradient: list[Tensor] = []

    @cached_property
    def average(self) -> nn.Module:
        """The network as it was at first; a copy for every test would take a quarter of their time."""
        average = copy.deepcopy(self.network).eval()
        average.load_state_dict(self._initial)
        return average

    def __call__(self, *, no_grad: Mapping[str, Tensor] | None = None, **views: Tensor) -> dict[str, Outputs]:
        self.with_gradient += views.values()
        self.without_gradient += (no_grad or {}).values()
        outputs = {name: self.network(view) for name, view in views.items()}
        with torch.no_grad():
            outputs |= {name: self.network(view) for name, view in (no_grad or {}).items()}
        return outputs

    def begin(self, *, no_grad: Mapping[str, Tensor], **views: Tensor) -> EveryImage:
        return EveryImage(self(no_grad=no_grad, **views))

    def teacher(self, **views: Tensor) -> dict[str, Outputs]:
        self.without_gradient += views.values()
        with torch.no_grad():
            return {name: self.average(view) for name, view in views.items()}

    def heads(self, features: Tensor) -> Outputs:
        return self.network.heads_from(features)

    def without_statistics(self, **views: Tensor) -> dict[str, Outputs]:
        self.with_gradient += views.values()
        kept = copy.deepcopy(dict(self.network.named_buffers()))
        outputs = {name: self.network(view) for name, view in views.items()}
        for name, buffer in self.network.named_buffers():
            if not torch.equal(buffer, kept[name]):  # the backward pass needs frozen statistics as they were
                buffer.copy_(kept[name])
        return outputs


@dataclass
class TinyPool:
    """The whole training set for `Method.refresh`: random features through the real heads."""

    network: Network
    class_ids: Tensor
    unlabelled_count: int = POOL

    def labelled(self) -> Outputs:
        return self._outputs(len(self.class_ids), seed=1)

    def unlabelled(self) -> Outputs:
        return self._outputs(self.unlabelled_count, seed=2)

    @torch.no_grad()
    def _outputs(self, count: int, seed: int) -> Outputs:
        weight = next(self.network.parameters())
        features = torch.randn(count, self.network.backbone.out_features, generator=seeded(seed))  # type: ignore[arg-type]
        return self.network.heads_from(features.to(weight.dtype))


@dataclass
class Bench:
    """A method with its network and task, and steps to take with it."""

    method: Method[MethodConfig]
    network: Network
    task: Task
    forward: TinyForward = field(init=False)

    def __post_init__(self) -> None:
        self.forward = TinyForward(self.network)

    def step(self, batch: Batch, step: int = 0) -> StepResult:
        return self.method.compute(batch, self.forward, progress_at(step))

    def refresh(self, step: int = 0) -> None:
        labels = torch.arange(3 * self.task.num_classes) % self.task.num_classes
        self.method.refresh(TinyPool(self.network, labels), progress_at(step))

    def copy(self) -> Bench:
        """A bench that shares nothing with this one and continues from the same state."""
        return Bench(copy.deepcopy(self.method), copy.deepcopy(self.network), self.task)


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def progress_at(step: int) -> Progress:
    return Progress(step=step, total_steps=100, steps_per_epoch=10, generator=seeded(1000 + step))


def make_task(classes: int) -> Task:
    """Random unit vectors, classes 0 and 1 in one group where there are more than two."""
    groups = torch.arange(classes) if classes == 2 else (torch.arange(classes) - 1).clamp(min=0)
    return Task(
        class_names=tuple(f"class {k}" for k in range(classes)),
        label_vectors=F.normalize(torch.randn(classes, DIM, generator=seeded(classes)), dim=-1),
        group_ids=groups,
        labelled_counts=torch.full((classes,), 3),
        pool_size=POOL,
        num_features=TinyBackbone.out_features,
    )


def make_batch(views: ViewCounts, classes: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> Batch:
    """Exactly the views asked for, of noise."""
    generator = seeded(seed)

    def images(count: int, views: int) -> tuple[Tensor, ...]:
        return tuple(torch.randn(count, 3, SIDE, SIDE, generator=generator).to(dtype) for _ in range(views))

    return Batch(
        class_ids=torch.randint(classes, (B,), generator=generator),
        labelled=Views(weak=images(B, views.labelled_weak), strong=images(B, views.labelled_strong)),
        unlabelled=Views(weak=images(U, views.unlabelled_weak), strong=images(U, views.unlabelled_strong)),
        labelled_index=torch.randperm(3 * classes, generator=generator)[:B],
        unlabelled_index=torch.randperm(POOL, generator=generator)[:U],
    )


@dataclass
class TunedBench(Bench):
    """A bench whose first layers are frozen; `inputs` are what the network reads."""

    tuned: TunedNetwork

    def inputs(self, batch: Batch) -> Batch:
        """Return the batch with outputs of the frozen layers in place of images, unless the method needs images."""
        if self.method.changes_images:
            return batch
        return replace(batch, labelled=self._pass(batch.labelled), unlabelled=self._pass(batch.unlabelled))

    @torch.no_grad()
    def _pass(self, views: Views) -> Views:
        frozen = self.tuned.frozen()
        return Views(tuple(map(frozen, views.weak)), tuple(map(frozen, views.strong)))


def make_tuned_bench(name: str, tune: Tune, classes: int = 7) -> TunedBench:
    """The network of a run from loaded weights: frozen statistics, first layers as ``tune`` says."""
    plain = make_bench(name, classes)
    for part_name, buffer in plain.network.named_buffers():  # as if it had been trained before
        if part_name.endswith(("running_mean", "running_var")):
            buffer.add_(0.1 * torch.rand(buffer.shape, generator=seeded(3)))
    tuned = tune_network(plain.network, tune, freeze_norm=True)
    network = plain.network if plain.method.changes_images else tuned.trained()
    return TunedBench(plain.method, network.train(), plain.task, tuned)


def make_bench(name: str, classes: int = 7, **fields: object) -> Bench:
    task = make_task(classes)
    torch.manual_seed(1)
    method = build_method(Method.registry[name].Config(**fields), task)  # type: ignore[arg-type]
    torch.manual_seed(0)
    network = build_network(ModelConfig(backbone="tiny"), method.heads, classes, DIM, 3, SIDE)
    return Bench(method.train(), network.train(), task)


@pytest.fixture
def bench() -> Callable[..., Bench]:
    return make_bench


@pytest.fixture
def tuned_bench() -> Callable[..., TunedBench]:
    return make_tuned_bench


@pytest.fixture
def batch() -> Callable[..., Batch]:
    return make_batch
