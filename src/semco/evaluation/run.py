"""Evaluate the model of a finished run on the test images of its data."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from semco.config import Config
from semco.data.datasets import Dataset, ProgressCallback
from semco.data.sources import load
from semco.distributed.processes import Processes
from semco.errors import UserError
from semco.evaluation.engine import with_engine
from semco.evaluation.model_file import SavedModel, load_model
from semco.evaluation.probabilities import Head, HeadScorers, heads_of, predict_probabilities
from semco.evaluation.results import Evaluation, evaluate_probabilities, image_batches
from semco.run.data_record import changes_of_dataset
from semco.run.folder import RunFolder
from semco.run.identity import run_digest
from semco.run.seal import DataSeal, broken_seals, read_with_digest
from semco.training.execution import choose_device


def evaluate_run(
    run: Path, head: Head | None = None, report: ProgressCallback | None = None, device: str = "auto"
) -> Evaluation:
    """Return the evaluation of ``head`` (by default the head of the run) on the test images."""
    if head is not None:
        return evaluate_heads(run, (head,), report, device)[head]
    evaluations = evaluate_heads(run, None, report, device)
    return next(iter(evaluations.values()))


def evaluate_heads(
    run: Path,
    heads: tuple[Head, ...] | None = None,
    report: ProgressCallback | None = None,
    device: str = "auto",
) -> dict[Head, Evaluation]:
    """Return the evaluation of each head (by default of all that the model has) on the test images.

    The head of the run, with which it predicts, comes first.
    """
    folder = RunFolder.open(run)
    config = folder.config()
    chosen_device = choose_device(device, Processes.from_environment())
    model = with_engine(load_model(folder.model, chosen_device), chosen_device)
    dataset = load(config.data, report)
    images, labels = dataset.test_images, dataset.test_labels
    if images is None or labels is None:
        raise UserError(
            f"the data of {run} ({config.data.source}) has no test images; add a folder test/ with one folder per "
            "class, or x_test and y_test to the .npz file."
        )
    _check_same_data(run, model, dataset)
    _check_seal(folder, config, model, dataset)
    description = model.description
    batches = image_batches(images, description.mean, description.std, config.evaluation.batch_size, chosen_device)
    chosen = heads or tuple(dict.fromkeys((description.head, *heads_of(description.scale))))
    scorers = HeadScorers(chosen, model.label_vectors, description.scale)
    scores = scorers.split(predict_probabilities(model.network, batches, scorers))
    truth, group_ids = labels.numpy(), np.asarray(description.groups)
    return {
        head: evaluate_probabilities(each, truth, description.class_names, group_ids, head)
        for head, each in scores.items()
    }


def _check_seal(folder: RunFolder, config: Config, model: SavedModel, dataset: Dataset) -> None:
    """Refuse to evaluate a run whose data or files were changed after the training."""
    for file in (folder.split_file, folder.labels_file):
        if model.description.seal and file.exists():
            read_with_digest(file)
    current = DataSeal(dataset).values | {"configuration": run_digest(config)}
    broken = broken_seals(model.description.seal, current)
    if broken:
        changes = changes_of_dataset(folder.path, config.data, dataset)
        files = f"; files: {changes.describe()}" if changes else ""
        raise UserError(
            f"{folder.path} was trained with other inputs than it has now ({', '.join(broken)}{files}): restore them, "
            "or train again."
        )


def _check_same_data(run: Path, model: SavedModel, dataset: Dataset) -> None:
    """Refuse a data set whose classes or images differ from those of the training."""
    expected, found = model.description.class_names, dataset.class_names
    if expected != found:
        changed = sorted(set(expected) ^ set(found))
        how = f"differ in {', '.join(changed[:5])}" if changed else "are in another order"
        raise UserError(
            f"the classes of {dataset.name} are not those that {run} was trained on: they {how}; restore the data."
        )
    size, channels = model.description.image_size, model.description.channels
    if (dataset.image_size, dataset.channels) != (size, channels):
        raise UserError(
            f"the images of {dataset.name} are {dataset.image_size} pixels with {dataset.channels} channel(s), "
            f"but {run} was trained on {size} with {channels}; restore the data."
        )
