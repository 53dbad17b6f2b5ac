"""Evaluate a finished run on other labelled images than those of its own data.

Shapes: N images, C channels, K classes.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from semco.config import DataConfig
from semco.data.datasets import Dataset, ProgressCallback, find_class
from semco.data.sources import load as load_data
from semco.errors import UserError
from semco.evaluation.probabilities import Head
from semco.evaluation.results import Evaluation, evaluate_probabilities
from semco.predict.engine import About
from semco.predict.predictor import array_to_pixels, load


def evaluate_on(
    run: Path, source: str, head: Head | None = None, report: ProgressCallback | None = None, device: str = "auto"
) -> Evaluation:
    """Return the evaluation on the labelled images of any source that `semco train` reads.

    The test images of the source are used if it has some, else all its labelled images. Its classes are found by their
    names among those of the model; the model may have more.
    """
    engine = load(run, head, device).engine
    about = engine.about
    dataset = load_data(DataConfig(source=source, image_size=max(about.image_size)), report)
    images, labels = _labelled(source, dataset)
    numbers = [find_class(about.class_names, name, f"class of {source}:") for name in dataset.class_names]
    batches = (_fit(batch, about) for batch in torch.split(images, about.batch_size))
    scores = np.concatenate([each.chosen for each in engine.stream(batches)])
    truth = np.asarray(numbers)[labels.numpy()]
    return evaluate_probabilities(scores, truth, about.class_names, np.asarray(about.group_ids), about.head)


def _labelled(source: str, dataset: Dataset) -> tuple[Tensor, Tensor]:
    """Return the test images and their class ids, or all labelled images if there are none for testing."""
    if dataset.test_images is not None and dataset.test_labels is not None:
        return dataset.test_images, dataset.test_labels
    known = dataset.train_labels >= 0
    if not bool(known.any()):
        raise UserError(f"{source} has no labelled images to evaluate on; give a folder with one folder per class.")
    return dataset.train_images[known], dataset.train_labels[known]


def _fit(images: Tensor, about: About) -> Tensor:
    """Return images (N, C, S, S) with the size and the channels of the model."""
    if tuple(images.shape[1:]) == (about.channels, *about.image_size):
        return images
    return torch.stack([array_to_pixels(image, about) for image in images.permute(0, 2, 3, 1).contiguous().numpy()])
