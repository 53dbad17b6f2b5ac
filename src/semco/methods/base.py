"""The contract of a method.

Shapes: B labelled images, U unlabelled images, K classes, d embedding size.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar, Generic, Literal, Protocol, TypeVar

import torch
from torch import Tensor, nn

from semco.config import MethodConfig
from semco.models import FeatureTransform, LinearHead
from semco.types import Batch, Outputs, Passes, Progress, PseudoLabels, StepResult, Task, ViewCounts

Head = Literal["one_hot", "semantic", "rotation"]
C = TypeVar("C", bound=MethodConfig)
# Confidence from which on a fitted head is called sure.
SURE = 0.9


class Forward(Protocol):
    """The network as a method sees it: named views in, `Outputs` by the same names out.

    Views given in ``no_grad`` only make targets; their outputs carry no gradient. The training loop decides whether
    they run in a pass of their own or together with the others.
    """

    def __call__(self, *, no_grad: Mapping[str, Tensor] | None = None, **views: Tensor) -> dict[str, Outputs]: ...

    def begin(self, *, no_grad: Mapping[str, Tensor], **views: Tensor) -> Passes:
        """Run at least the views in ``no_grad``; their outputs may decide which images of the other views must run."""
        ...

    def teacher(self, **views: Tensor) -> dict[str, Outputs]:
        """Run the views through the EMA weights, without gradient."""
        ...

    def without_statistics(self, **views: Tensor) -> dict[str, Outputs]:
        """Run the views with gradient, but without updating batch-norm statistics (inner passes of VAT)."""
        ...

    def heads(self, features: Tensor) -> Outputs:
        """Run the heads on features (N, F) that a method has changed, with gradient."""
        ...


class Pool(Protocol):
    """The whole training set as `Method.refresh` sees it, evaluated without augmentation."""

    class_ids: Tensor  # (N_l,) int64, labels of the labelled images

    def labelled(self) -> Outputs:
        """Return the outputs of every labelled image, in order of ``Batch.labelled_index``."""
        ...

    def unlabelled(self) -> Outputs:
        """Return the outputs of every unlabelled image, in order of ``Batch.unlabelled_index``."""
        ...


class Photos(Protocol):
    """Features of photos, which are read when they are asked for: there may be more than the memory holds."""

    def __len__(self) -> int: ...

    def read(self, position: Tensor) -> Tensor:
        """Return the features (n, V, F) of the photos at these positions (n,), of the plain view first."""
        ...


class Method(nn.Module, ABC, Generic[C]):
    """What a semi-supervised method adds: which views, which heads, which losses.

    A subclass with a ``name`` is put into the registry. What evolves during training lives in registered buffers, which
    the loop moves and saves. Trainable layers of a method are ordinary parameters, and each takes part in every step.

    With several processes, each computes a step on its part of the images. Statistics of the whole step come from
    ``progress.gather`` and ``progress.mean``. After the step the buffers of the processes are merged by their kind:

    - floating-point: the mean, which is right for moving averages of batch means;
    - named in ``per_image_buffers``: one row per unlabelled image; a step changes only the rows of its own images, and
      each row is taken from the process that saw the image (memory banks, ensembled predictions);
    - other numbers: the maximum, which is right for counters of steps;
    - registered with ``persistent=False``: not merged and not saved, for constants made from the task.

    Parts of a method (threshold policies) declare their own ``per_image_buffers`` in the same way.
    """

    name: ClassVar[str]
    title: ClassVar[str]  # "FixMatch (Sohn et al. 2020)"
    Config: ClassVar[type[MethodConfig]]
    views: ViewCounts = ViewCounts()  # of the class, or of the instance where a field decides
    heads: ClassVar[tuple[Head, ...]] = ("one_hot",)
    # Scale of the cosines when the semantic head predicts, softmax(scale * cos); set by methods with such a head.
    scale: float | None = None
    # The head that predicts, if the configuration leaves it open; the second is for networks with loaded weights.
    predicting_head: ClassVar[Literal["one_hot", "semantic"]] = "one_hot"
    pretrained_head: ClassVar[Literal["one_hot", "semantic", "average"]] = "one_hot"
    per_image_buffers: ClassVar[tuple[str, ...]] = ()
    # Whether the method mixes, rotates or perturbs the views itself. If so, outputs of frozen layers cannot be cached.
    changes_images: ClassVar[bool] = False
    registry: ClassVar[dict[str, type[Method[MethodConfig]]]] = {}

    def __init_subclass__(cls, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        if "name" in cls.__dict__:
            Method.registry[cls.name] = cls  # type: ignore[assignment]

    def __init__(self, config: C, task: Task) -> None:  # noqa: ARG002
        """Store the configuration; a subclass registers the tensors of ``task`` that it needs as buffers."""
        super().__init__()
        self.config = config

    @abstractmethod
    def compute(self, batch: Batch, forward: Forward, progress: Progress) -> StepResult:
        """Return the losses of one step."""

    def pseudo_labels(self, weak: Outputs, index: Tensor) -> Mapping[str, PseudoLabels]:  # noqa: ARG002
        """Return the pseudo-labels of each head, from outputs on weak views and their positions (U,) in the pool.

        By default those of the one-hot head, all retained.
        """
        confidence, class_ids = weak.logits.softmax(dim=-1).max(dim=-1)
        return {"one_hot": PseudoLabels(class_ids, weights=torch.ones_like(confidence), confidence=confidence)}

    def refresh(self, pool: Pool, progress: Progress) -> None:
        """Relabel the pool. Called once per pass over the pool, and at least ten times per run."""


class FittedMethod(Method[C]):
    """A method that takes no steps: its head is fitted to features of a frozen backbone.

    `transform` makes what the head reads from the features of all photos and does not know their labels, so that a
    cross-validation makes it once. `fit` is called for every set of labels. ``config.has_close_up`` says whether the
    features of the close-up of each photo are read beside those of the plain one.
    """

    # Photos of the pool that are read at most, chosen at random; 0: the method does not use the pool.
    most_pool: ClassVar[int] = 0
    # How long a fit takes: passes over the features of the labelled photos and of so many photos of the pool.
    passes: ClassVar[int] = 0
    most_read: ClassVar[int] = 0

    def transform(self, photos: Photos) -> FeatureTransform | None:  # noqa: ARG002
        """Return what is fitted to the labelled photos and the pool; None if the head reads plain features."""
        return None

    def features(self, photos: Photos, transform: FeatureTransform | None) -> Tensor | None:  # noqa: ARG002
        """Return a matrix (D, F) from what the head reads to the features, if `fit` needs it; labels do not matter."""
        return None

    @abstractmethod
    def fit(self, x: Tensor, class_ids: Tensor, pool: Tensor, features: Tensor | None = None) -> LinearHead:
        """Return the head for labelled rows (N, D) of these classes (N,), and the rows (U, D) of the pool."""

    def pseudo_labels(self, weak: Outputs, index: Tensor) -> Mapping[str, PseudoLabels]:
        """Return the answers for the pool, of which those are retained that the head is `SURE` of."""
        found = super().pseudo_labels(weak, index)["one_hot"]
        return {"one_hot": replace(found, weights=(found.confidence >= SURE).to(found.confidence))}

    def compute(self, batch: Batch, forward: Forward, progress: Progress) -> StepResult:  # noqa: ARG002
        raise AssertionError(f"{self.name} is fitted and takes no steps")


def sigmoid_ramp(fraction: float, length: float) -> float:
    """Return exp(-5 (1 - t)^2), t from 0 to 1 over the first ``length`` of the run, then 1 (Laine & Aila 2017)."""
    done = 1.0 if length == 0 else min(1.0, fraction / length)
    return math.exp(-5.0 * (1.0 - done) ** 2)


def linear_ramp(fraction: float, start: float, end: float) -> float:
    """Return 0 up to ``start``, then linearly up to 1 at ``end``; a step function if both are equal."""
    if fraction >= end:
        return 1.0
    return max(0.0, (fraction - start) / (end - start)) if end > start else 0.0


def cosine_ramp(fraction: float, length: float) -> float:
    """Return 1/2 - cos(pi t) / 2, t from 0 to 1 over the first ``length`` of the run, then 1 (AdaMatch)."""
    done = 1.0 if length == 0 else min(1.0, fraction / length)
    return 0.5 - 0.5 * math.cos(math.pi * done)


def ramp_over_steps(progress: Progress, steps: int) -> float:
    """Return a linear ramp from 0 to 1 at step ``steps``, or at the end of the run if that comes first."""
    return min(1.0, progress.step / max(1, min(steps, progress.total_steps))) if steps else 1.0
