"""What a model does on images whose class is known: the numbers of an evaluation, and some pictures of it.

Shapes: N images, C channels, H and W pixels, K classes, Q label groups.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from semco.data.normalise import normalise_images
from semco.errors import UserError
from semco.evaluation import metrics
from semco.evaluation.probabilities import Head
from semco.evaluation.samples import Sample
from semco.files import write_json

EVALUATION_FILE = "evaluation.json"


def image_batches(
    images: Tensor,
    mean: Sequence[float],
    std: Sequence[float],
    batch_size: int = 256,
    device: torch.device | str = "cpu",
) -> Iterator[Tensor]:
    """Images (N, C, H, W) uint8 as they are, normalised, in order, the last batch as short as it is."""
    moments = torch.tensor(mean, device=device), torch.tensor(std, device=device)
    for chunk in torch.split(images, batch_size):
        yield normalise_images(chunk.to(device), *moments)


@dataclass(frozen=True)
class Evaluation:
    """Numbers of one head on one set of images."""

    head: Head
    class_names: tuple[str, ...]
    groups: NDArray[np.integer]  # (K,)
    confusion: NDArray[np.integer]  # (K, K): row = truth, column = predicted
    accuracy: float
    top5: float
    group_accuracy: float
    calibration_error: float

    @property
    def images(self) -> int:
        return int(self.confusion.sum())

    def per_class(self) -> dict[str, float | None]:
        """Part of each class's images that are given that class."""
        return dict(zip(self.class_names, metrics.per_class_accuracy(self.confusion), strict=True))

    def per_group(self) -> dict[str, float | None]:
        """Part of each group's images that are given some class of the group, by ``shirt + coat``."""
        names = group_names(self.class_names, self.groups.tolist())
        return dict(zip(names, metrics.per_group_accuracy(self.confusion, self.groups), strict=True))

    def summary(self) -> dict[str, Any]:
        """The numbers for ``result.json`` and for ``semco evaluate --json``."""
        return {
            "test_accuracy": self.accuracy,
            "test_error": 1.0 - self.accuracy,
            "test_images": self.images,
            "head": self.head,
            "top5": self.top5,
            "group_accuracy": self.group_accuracy,
            "calibration_error": self.calibration_error,
            "per_class": self.per_class(),
            "per_group": self.per_group(),
        }


def group_names(class_names: Sequence[str], groups: Sequence[int]) -> list[str]:
    """Each group by its members: ``t-shirt + shirt``."""
    members: list[list[str]] = [[] for _ in range(max(groups) + 1)]
    for name, group in zip(class_names, groups, strict=True):
        members[group].append(name)
    return [" + ".join(names) for names in members]


def evaluate_probabilities(
    probabilities: NDArray[np.floating],
    truth: NDArray[np.integer],
    class_names: Sequence[str],
    groups: NDArray[np.integer],
    head: Head = "one_hot",
) -> Evaluation:
    """Judge (N, K) probabilities by the truth (N,); images whose class is not known (-1) are left out."""
    known = truth >= 0
    if not known.any():
        raise UserError("there is no image with a known class to evaluate on.")
    probabilities, truth = probabilities[known], truth[known]
    confusion = metrics.confusion_matrix(probabilities.argmax(axis=1), truth, len(class_names))
    return Evaluation(
        head=head,
        class_names=tuple(class_names),
        groups=groups,
        confusion=confusion,
        accuracy=metrics.accuracy(probabilities, truth),
        top5=metrics.top_k_accuracy(probabilities, truth, k=5),
        group_accuracy=metrics.group_accuracy(confusion, groups),
        calibration_error=metrics.expected_calibration_error(probabilities, truth),
    )


def write_evaluation(run: Path, evaluation: Evaluation, samples: Sequence[Sample] = ()) -> None:
    """Leave in a run folder what its report shows of the test set."""
    values = {
        **evaluation.summary(),
        "class_names": list(evaluation.class_names),
        "groups": evaluation.groups.tolist(),
        "confusion": evaluation.confusion.tolist(),
        "samples": [sample.to_json() for sample in samples],
    }
    write_json(run / EVALUATION_FILE, values)
