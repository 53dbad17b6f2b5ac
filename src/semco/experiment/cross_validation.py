"""Cross-validation: labels are held out in turn, and a model and the linear probe predict their images.

Shapes: N labelled images, K classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from semco.data.randomness import make_numpy_generator
from semco.run.accuracy import Accuracy, Difference, Kind, Right
from semco.run.result import ProbeResult


@dataclass(frozen=True)
class Answers:
    """Predictions for training images whose labels were held out."""

    index: NDArray[np.int64]  # (n,) positions among the training images
    scores: NDArray[np.float32]  # (n, K) probabilities

    @classmethod
    def join(cls, parts: Sequence[Answers]) -> Answers:
        return cls(np.concatenate([each.index for each in parts]), np.concatenate([each.scores for each in parts]))

    def right(self, labels: Tensor) -> Right:
        """Return which of them are correct, given the labels of all training images."""
        right: Right = self.scores.argmax(axis=1) == labels.numpy()[self.index]
        return right


@dataclass(frozen=True)
class Measured:
    """Which images of one kind a model and the linear probe classify correctly."""

    kind: Kind
    model: Right  # (N,)
    probe: Right | None = None  # (N,)

    @property
    def accuracy(self) -> Accuracy | None:
        return Accuracy.count(self.model, self.kind)

    @property
    def difference(self) -> Difference | None:
        if self.probe is None or not len(self.probe):
            return None
        return Difference.between(self.model, self.probe)

    def is_probe_better(self) -> bool:
        """Return whether the probe is better by more than the 95 % interval of the difference."""
        return self.difference is not None and self.difference.high < 0

    def keep_probe(self) -> Measured:
        """Return the comparison with the probe in the place of the model."""
        assert self.probe is not None
        return replace(self, model=self.probe)

    def probe_result(self, *, is_kept: bool) -> ProbeResult | None:
        """Return the result of the probe beside the model, if there is one."""
        if self.probe is None:
            return None
        accuracy = Accuracy.count(self.probe, self.kind)
        return ProbeResult(accuracy=accuracy, difference=self.difference, is_kept=is_kept)


def fold_positions(class_ids: NDArray[np.int64], folds: int, seed: int) -> list[NDArray[np.int64]]:
    """Return the positions of each fold among the labelled images (N,), with about equal parts of every class.

    The only label of a class is never held out, because its class could not be predicted without it. The labels of a
    class are in different folds as far as possible, so a class with two labels loses one of them at a time.
    """
    generator = make_numpy_generator(seed, "folds")
    ordered: list[int] = []
    for class_id in np.unique(class_ids):
        own = np.flatnonzero(class_ids == class_id)
        if len(own) > 1:
            ordered += generator.permutation(own).tolist()
    parts = [np.array(sorted(ordered[start::folds]), dtype=np.int64) for start in range(folds)]
    return [part for part in parts if len(part)]
