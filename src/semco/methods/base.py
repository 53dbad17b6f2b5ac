"""The contract of a method.

Shapes: B labelled images, U unlabelled images, K classes, d embedding size.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar, Generic, Literal, Protocol, TypeVar

import torch
from torch import Tensor, nn

from semco.config import MethodConfig
from semco.types import Batch, Outputs, Progress, PseudoLabels, StepResult, Task, ViewCounts

Head = Literal["one_hot", "semantic", "rotation"]
C = TypeVar("C", bound=MethodConfig)


class Forward(Protocol):
    """The network, as a method sees it: named views in, `Outputs` by the same names out.

    Views given in ``no_grad`` only make targets: their outputs carry no gradient. Whether they run in a pass of
    their own or together with the others is not the method's business.
    """

    def __call__(self, *, no_grad: Mapping[str, Tensor] | None = None, **views: Tensor) -> dict[str, Outputs]: ...

    def teacher(self, **views: Tensor) -> dict[str, Outputs]:
        """The same through the averaged (EMA) weights, without gradient."""
        ...

    def without_statistics(self, **views: Tensor) -> dict[str, Outputs]:
        """With gradient, but leaving the running statistics of normalisation layers alone (VAT's inner passes)."""
        ...

    def heads(self, features: Tensor) -> Outputs:
        """What the heads say of features (N, F) that a method has changed, with gradient."""
        ...


class Pool(Protocol):
    """The whole training set as `Method.refresh` sees it, evaluated without augmentation."""

    labels: Tensor  # (N_l,) int64, labels of the labelled images

    def labelled(self) -> Outputs:
        """Outputs for every labelled image, in order of ``Batch.labelled_index``."""
        ...

    def unlabelled(self) -> Outputs:
        """Outputs for every unlabelled image, in order of ``Batch.unlabelled_index``."""
        ...


class Method(nn.Module, ABC, Generic[C]):
    """What a semi-supervised method adds: which views, which heads, which losses.

    A subclass is known to the registry by ``name``. What evolves during training lives in registered buffers, which
    the loop moves and saves; trainable parts of its own are ordinary parameters, and each takes part in every step.

    Of several processes each sees its own part of a step's images; afterwards the buffers are brought together by
    kind, so that no method knows of processes:

    - floating-point: the mean, right for moving averages of batch means (running distributions, thresholds);
    - named in ``per_image_buffers``: a row for each unlabelled image, of which a step changes only those of its own
      images; each row is taken from the process that saw the image (memory banks, ensembled predictions);
    - other numbers: the greatest, right for counters of steps;
    - registered with ``persistent=False``: left alone and not saved, for constants made from the task.

    What is not linear in the images (a ratio, a variance) asks `semco.across` for the step as a whole.

    Parts of a method (threshold policies) declare their own ``per_image_buffers`` in the same way.
    """

    name: ClassVar[str]
    title: ClassVar[str]  # "FixMatch (Sohn et al. 2020)"
    Config: ClassVar[type[MethodConfig]]
    views: ViewCounts = ViewCounts()  # of the class, or of the object where a field says how many
    heads: ClassVar[tuple[Head, ...]] = ("one_hot",)
    # Of the cosines when the semantic head predicts, softmax(scale * cos); a method with such a head sets it.
    scale: float | None = None
    per_image_buffers: ClassVar[tuple[str, ...]] = ()
    registry: ClassVar[dict[str, type[Method[MethodConfig]]]] = {}

    def __init_subclass__(cls, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        if "name" in cls.__dict__:
            Method.registry[cls.name] = cls  # type: ignore[assignment]

    def __init__(self, config: C, task: Task) -> None:  # noqa: ARG002
        """Keep the fields; a subclass registers the tensors of ``task`` that it needs as buffers."""
        super().__init__()
        self.config = config

    @abstractmethod
    def compute(self, batch: Batch, forward: Forward, progress: Progress) -> StepResult:
        """The losses of one step."""

    def pseudo_labels(self, weak: Outputs, index: Tensor) -> Mapping[str, PseudoLabels]:  # noqa: ARG002
        """What each head says of unlabelled images, given their weak views and places in the pool.

        By default the one-hot head's answers, none left out.
        """
        confidence, labels = weak.logits.softmax(dim=-1).max(dim=-1)
        return {"one_hot": PseudoLabels(labels=labels, mask=torch.ones_like(confidence), confidence=confidence)}

    def refresh(self, pool: Pool, progress: Progress) -> None:
        """Called once a pass over the pool, ten times in a run at least; methods that relabel the pool override it."""
