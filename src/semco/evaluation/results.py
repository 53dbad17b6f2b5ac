"""The evaluation of a model on images whose classes are known.

Shapes: N images, C channels, H and W pixels, K classes, Q label groups.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from semco.data.inputs import images_at_a_time
from semco.data.normalise import normalise_images
from semco.data.storage.mapped import in_chunks
from semco.errors import UserError
from semco.evaluation import metrics
from semco.evaluation.metrics import Confusion, confusion_of
from semco.evaluation.probabilities import Head
from semco.evaluation.samples import Sample
from semco.run.accuracy import Kind
from semco.run.folder import RunFolder
from semco.run.seal import write_with_digest


def image_batches(
    images: Tensor,
    mean: Sequence[float],
    std: Sequence[float],
    batch_size: int = 256,
    device: torch.device | str = "cpu",
) -> Iterator[Tensor]:
    """Yield images (N, C, H, W) uint8 as normalised batches, in order; the last batch may be shorter."""
    mean_and_std = torch.tensor(mean, device=device), torch.tensor(std, device=device)
    for chunk in in_chunks(images, images_at_a_time(batch_size, images.shape[1:])):
        yield normalise_images(chunk.to(device), *mean_and_std)


@dataclass(frozen=True)
class Evaluation:
    """Metrics of one head on one set of images."""

    head: Head
    class_names: tuple[str, ...]
    group_ids: NDArray[np.integer]  # (K,)
    confusion: Confusion
    accuracy: float
    top5: float
    group_accuracy: float
    calibration_error: float
    reliability: NDArray[np.floating] = field(default_factory=lambda: np.zeros((0, 3)))  # as `metrics.reliability`

    @property
    def num_images(self) -> int:
        return int(self.confusion.counts.sum())

    def per_class(self) -> dict[str, float | None]:
        """Return the accuracy on the images of each class."""
        return dict(zip(self.class_names, metrics.per_class_accuracy(self.confusion), strict=True))

    def per_group(self) -> dict[str, float | None]:
        """Return the group accuracy on the images of each group, by its name (``shirt + coat``)."""
        names = group_names(self.class_names, self.group_ids.tolist())
        return dict(zip(names, metrics.per_group_accuracy(self.confusion, self.group_ids), strict=True))

    def numbers(self) -> dict[str, float]:
        """Return the metrics that are one number each, to be put side by side with those of another head."""
        names = ("accuracy", "top5", "group_accuracy", "calibration_error")
        return {name: float(getattr(self, name)) for name in names}

    def summary(self) -> dict[str, Any]:
        """Return the metrics as plain values, named as in `RunResult`."""
        return {
            "test_accuracy": self.accuracy,
            "test_error": 1.0 - self.accuracy,
            "test_images": self.num_images,
            "head": self.head,
            "top5": self.top5,
            "group_accuracy": self.group_accuracy,
            "calibration_error": self.calibration_error,
            "per_class": self.per_class(),
            "per_group": self.per_group(),
        }


def group_names(class_names: Sequence[str], group_ids: Sequence[int]) -> list[str]:
    """Return the name of each group, made of its classes: ``t-shirt + shirt``."""
    members: list[list[str]] = [[] for _ in range(max(group_ids) + 1)]
    for name, group_id in zip(class_names, group_ids, strict=True):
        members[group_id].append(name)
    return [" + ".join(names) for names in members]


def evaluate_probabilities(
    probabilities: NDArray[np.floating],
    truth: NDArray[np.integer],
    class_names: Sequence[str],
    group_ids: NDArray[np.integer],
    head: Head = "one_hot",
) -> Evaluation:
    """Compare probabilities (N, K) with the true classes (N,); images whose class is unknown (-1) are left out."""
    known = truth >= 0
    if not known.any():
        raise UserError("no image to evaluate on has a known class.")
    probabilities, truth = probabilities[known], truth[known]
    confusion = confusion_of(probabilities.argmax(axis=1), truth, len(class_names))
    return Evaluation(
        head=head,
        class_names=tuple(class_names),
        group_ids=group_ids,
        confusion=confusion,
        accuracy=metrics.accuracy(probabilities, truth),
        top5=metrics.top_k_accuracy(probabilities, truth, k=5),
        group_accuracy=metrics.group_accuracy(confusion, group_ids),
        calibration_error=metrics.expected_calibration_error(probabilities, truth),
        reliability=metrics.reliability(probabilities, truth),
    )


def write_evaluation(
    run: Path,
    evaluation: Evaluation,
    samples: Sequence[Sample] = (),
    heads: Mapping[Head, Evaluation] | None = None,
    kind: Kind = "test",
) -> None:
    """Write evaluation.json, which the report reads, into a run folder; ``heads`` are all heads side by side.

    ``kind`` tells on which images it was made.
    """
    values = {
        **(evaluation.summary() if kind == "test" else {}),
        "kind": kind,
        "class_names": list(evaluation.class_names),
        "groups": evaluation.group_ids.tolist(),
        "confusion": evaluation.confusion.to_json(),
        "samples": [sample.to_json() for sample in samples],
        "heads": {
            head: {**each.numbers(), "reliability": each.reliability.tolist()} for head, each in (heads or {}).items()
        },
    }
    write_with_digest(RunFolder(run).evaluation_file, values)
