"""Evaluating a finished run again: its model, on the test images that its configuration names."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from semco.data.datasets import Dataset, ProgressCallback
from semco.data.sources import load
from semco.distributed.processes import Processes
from semco.errors import UserError
from semco.evaluation.model_file import SavedModel, load_model
from semco.evaluation.probabilities import Head, predict_probabilities
from semco.evaluation.results import Evaluation, evaluate_probabilities, image_batches
from semco.run.folder import RunFolder
from semco.training.execution import choose_device


def evaluate_run(run: Path, head: Head | None = None, report: ProgressCallback | None = None, device: str = "auto") -> Evaluation:
    """Numbers of ``head`` (the run's own if None) on the test images."""
    folder = RunFolder.open(run)
    config = folder.config()
    where = choose_device(device, Processes.from_environment())
    model = load_model(folder.model, where)
    dataset = load(config.data, report)
    images, labels = dataset.test_images, dataset.test_labels
    if images is None or labels is None:
        raise UserError(
            f"the data of {run} ({config.data.source}) has no test images to evaluate on; put some into "
            "test/CLASS NAME/ of the folder, or x_test and y_test into the .npz file."
        )
    _check_same_data(run, model, dataset)
    description = model.description
    batches = image_batches(images, description.mean, description.std, config.evaluation.batch_size, where)
    scores = predict_probabilities(model.network, batches, model.scorer(head))
    groups = np.asarray(description.groups)
    return evaluate_probabilities(scores, labels.numpy(), description.class_names, groups, head or description.head)


def _check_same_data(run: Path, model: SavedModel, dataset: Dataset) -> None:
    """A data set that changed since the run would give numbers that mean nothing."""
    wanted, found = model.description.class_names, dataset.class_names
    if wanted != found:
        changed = sorted(set(wanted) ^ set(found))
        what = f"differ in {', '.join(changed[:5])}" if changed else "come in another order"
        raise UserError(f"the classes of {dataset.name} are not those that {run} was trained on: they {what}.")
    size, channels = model.description.image_size, model.description.channels
    if (dataset.image_size, dataset.channels) != (size, channels):
        raise UserError(
            f"the images of {dataset.name} are {dataset.image_size} pixels with {dataset.channels} channel(s), "
            f"but {run} was trained on {size} with {channels}."
        )
