"""Data classes that travel between the rooms of the package.

Shapes: B labelled images, U unlabelled images, K classes, d embedding size, F features, Q groups.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import torch
from torch import Tensor
from torch.utils._pytree import register_dataclass


@dataclass(frozen=True)
class ViewCounts:
    """Number of views of each image that a method needs; the data pipeline makes only these."""

    labelled_weak: int = 1
    labelled_strong: int = 0
    unlabelled_weak: int = 0
    unlabelled_strong: int = 0


@dataclass(frozen=True)
class Views:
    """Views of the same images: each tensor is (N, C, H, W) float, normalised, channels-last."""

    weak: tuple[Tensor, ...] = ()
    strong: tuple[Tensor, ...] = ()


@dataclass(frozen=True)
class Batch:
    """The images of one training step. It does not hold the true classes of unlabelled images."""

    class_ids: Tensor  # (B,) int64, labels of the labelled images
    labelled: Views
    unlabelled: Views
    labelled_index: Tensor  # (B,) int64, position in the labelled set
    unlabelled_index: Tensor  # (U,) int64, position in the unlabelled pool


@dataclass(frozen=True)
class Outputs:
    """Outputs of the network for one view. Heads that were not built are None."""

    features: Tensor  # (N, F)
    logits: Tensor  # (N, K), one-hot head
    embedding: Tensor | None = None  # (N, d), semantic head, not normalised
    rotation: Tensor | None = None  # (N, 4), rotation head
    familiarity: Tensor | None = None  # (N,), of saved models that know "none of these"

    def detach(self) -> Outputs:
        return self._apply(Tensor.detach)

    def rows(self, index: Tensor) -> Outputs:
        """Return the outputs of some of the images, by position (n,)."""
        return self._apply(lambda values: values[index])

    def _apply(self, change: Callable[[Tensor], Tensor]) -> Outputs:
        values = (self.embedding, self.rotation, self.familiarity)
        optional = (None if each is None else change(each) for each in values)
        return Outputs(change(self.features), change(self.logits), *optional)


# So that torch.export can hand out the outputs of a network.
register_dataclass(Outputs)


class Passes(Protocol):
    """A step of which the views in ``no_grad`` have run."""

    @property
    def targets(self) -> dict[str, Outputs]: ...

    def finish(self, **taught: Tensor) -> dict[str, Outputs]:
        """Return the outputs of all views.

        ``taught``, by view: which images (N,) have a weight in a loss. The others need not run; their outputs are
        zeros then, so that the method multiplies their losses by 0 as ever.
        """
        ...


@dataclass(frozen=True)
class EveryImage:
    """`Passes` in which all views have run."""

    targets: dict[str, Outputs]

    def finish(self, **taught: Tensor) -> dict[str, Outputs]:  # noqa: ARG002
        return self.targets


class Peers(Protocol):
    """The processes that share the images of a step."""

    def gather(self, rows: Tensor) -> Tensor:
        """Return the rows (n, ...) of every process, in order, without gradient: (N, ...)."""
        ...

    def mean(self, values: Tensor) -> Tensor:
        """Return the mean of the values of all processes, with gradient."""
        ...


class NoPeers:
    """A single process, which holds all images of a step."""

    def gather(self, rows: Tensor) -> Tensor:
        return rows

    def mean(self, values: Tensor) -> Tensor:
        return values


@dataclass(frozen=True)
class Progress:
    """Position in the run, the random generator of the step, and statistics over the whole step.

    The images of a step may be shared by several processes. A method that needs a statistic of all of them which is
    not a mean of per-image values (a ratio, a threshold) calls `gather` or `mean`.
    """

    step: int
    total_steps: int
    steps_per_epoch: int
    generator: torch.Generator  # a function of seed and step
    peers: Peers = field(default_factory=NoPeers)

    @property
    def fraction(self) -> float:
        return self.step / max(1, self.total_steps)

    def gather(self, rows: Tensor) -> Tensor:
        """Return the rows (n, ...) of the whole step without gradient: (N, ...)."""
        return self.peers.gather(rows)

    def mean(self, values: Tensor) -> Tensor:
        """Return the mean over the whole step of values that are means over this process's images, with gradient."""
        return self.peers.mean(values)


@dataclass(frozen=True)
class PseudoLabels:
    """Pseudo-labels of one head for the unlabelled images of a step."""

    class_ids: Tensor  # (U,) int64
    weights: Tensor  # (U,) float in [0, 1]; 0 = not retained
    confidence: Tensor  # (U,) float
    group_ids: Tensor | None = None  # (U,) int64, the winning group of the semantic head


@dataclass(frozen=True)
class StepResult:
    """Named losses with their weights, and metrics to log.

    ``total`` is minimised. ``metrics`` are 0-dim tensors, averaged over the steps between two log lines.
    ``pseudo_labels`` are compared with the true classes by the training loop; methods do not know these.
    """

    losses: Mapping[str, Tensor]
    weights: Mapping[str, float] = field(default_factory=dict)  # 1 for losses that are not listed
    metrics: Mapping[str, Tensor] = field(default_factory=dict)
    pseudo_labels: Mapping[str, PseudoLabels] = field(default_factory=dict)

    @property
    def total(self) -> Tensor:
        terms = [self.weights.get(name, 1.0) * loss for name, loss in self.losses.items()]
        return torch.stack(terms).sum()


@dataclass(frozen=True)
class Task:
    """What a method may know of the problem when it is built."""

    class_names: tuple[str, ...]
    label_vectors: Tensor  # (K, d) float32, L2-normalised rows: M of the paper
    group_ids: Tensor  # (K,) int64, group of each class, 0..Q-1
    labelled_counts: Tensor  # (K,) int64, labelled images of each class
    pool_size: int  # number of unlabelled images
    num_features: int = 0  # F of the backbone, for methods with trainable layers of their own
    has_attributes: bool = False  # whether the label vectors say how the classes look, and not what their names mean
    published: str = ""  # the backbone, if its published weights are loaded: these have an ImageNet classifier

    @property
    def num_classes(self) -> int:
        return len(self.class_names)
