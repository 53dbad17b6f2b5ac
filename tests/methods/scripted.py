"""A `Forward` whose network is a plain function, so that every number can be worked out by hand."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

from semco.types import Batch, EveryImage, Outputs, Progress, Task, Views

Logits = Callable[[Tensor], Tensor]


class ScriptedForward:
    """``logits`` of images, by default the images themselves; the averaged model's own, if given; calls by name."""

    def __init__(self, logits: Logits = lambda v: v, teacher: Logits | None = None, rotation: Logits | None = None):
        self.logits, self.averaged, self.rotation = logits, teacher or logits, rotation
        self.seen: dict[str, Tensor] = {}

    def __call__(self, *, no_grad: Mapping[str, Tensor] | None = None, **views: Tensor) -> dict[str, Outputs]:
        outputs = self._outputs(self.logits, views)
        with torch.no_grad():
            return outputs | self._outputs(self.logits, no_grad or {})

    def begin(self, *, no_grad: Mapping[str, Tensor], **views: Tensor) -> EveryImage:
        return EveryImage(self(no_grad=no_grad, **views))

    def teacher(self, **views: Tensor) -> dict[str, Outputs]:
        with torch.no_grad():
            return self._outputs(self.averaged, views)

    def without_statistics(self, **views: Tensor) -> dict[str, Outputs]:
        return self._outputs(self.logits, views)

    def _outputs(self, logits: Logits, views: Mapping[str, Tensor]) -> dict[str, Outputs]:
        self.seen |= views
        turn = self.rotation
        return {
            name: Outputs(features=v, logits=logits(v), rotation=None if turn is None else turn(v))
            for name, v in views.items()
        }


def log_table(rows: Sequence[Sequence[float]]) -> Tensor:
    """Logits whose softmaxes are the rows."""
    return torch.tensor(rows, dtype=torch.float64).log()


def make_task(classes: int, labelled: int = 1, pool: int = 10) -> Task:
    names = tuple("abcdefghij"[:classes])
    return Task(names, torch.eye(classes), torch.arange(classes), torch.full((classes,), labelled), pool)


def make_batch(
    labels: Sequence[int],
    labelled: Tensor,
    weak: Sequence[Tensor] = (),
    strong: Sequence[Tensor] = (),
    labelled_strong: Sequence[Tensor] = (),
    index: Sequence[int] | None = None,
) -> Batch:
    count = len((*weak, *strong)[0])
    return Batch(
        class_ids=torch.tensor(labels),
        labelled=Views((labelled,), tuple(labelled_strong)),
        unlabelled=Views(tuple(weak), tuple(strong)),
        labelled_index=torch.arange(len(labels)),
        unlabelled_index=torch.arange(count) if index is None else torch.tensor(index),
    )


def at(step: int, total: int = 100, seed: int = 0) -> Progress:
    return Progress(step, total, 10, torch.Generator().manual_seed(seed))


def softmax(logits: Sequence[float]) -> list[float]:
    powers = [math.exp(z - max(logits)) for z in logits]
    return [p / sum(powers) for p in powers]
