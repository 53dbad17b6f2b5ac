"""What a network predicts for the images of a run, gathered from all processes.

Shapes: N images, K classes.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from semco.data.inputs import images_at_a_time
from semco.distributed.processes import gather_uneven_rows
from semco.evaluation.metrics import accuracy
from semco.evaluation.probabilities import Head, HeadScorers, Scorer, heads_of, predict_probabilities
from semco.evaluation.results import Evaluation, evaluate_probabilities
from semco.experiment.context import Context
from semco.training.statistics import TEST_ACCURACY

# Labelled images on which the accuracy is measured during training: enough for a curve, and fast.
MOST_LABELLED = 1_000


def training_scores(context: Context, network: nn.Module, index: Tensor, head: Head) -> NDArray[np.float32]:
    """Return the probabilities (N, K) of the training images at ``index``, without augmentation."""
    inputs = context.inputs.training
    size = images_at_a_time(context.config.evaluation.batch_size, inputs.shape)
    share = index[context.processes.share(len(index))].split(size)
    return _scores(context, network, map(inputs.plain, share), head)


def test_scores(context: Context, network: nn.Module, head: Head) -> NDArray[np.float32] | None:
    """Return the probabilities of the test images, if there are any."""
    if context.problem.dataset.test_images is None:
        return None
    return _scores(context, network, context.inputs.test(), head)


def test_scores_by_head(context: Context, network: nn.Module, *, is_probe: bool) -> dict[Head, NDArray[np.float32]]:
    """Return the probabilities of the test images by head, from one pass; a probe has no semantic head."""
    dataset, scale = context.problem.dataset, context.method.scale
    if dataset.test_images is None:
        return {}
    heads = heads_of(None if is_probe else scale)
    scorers = HeadScorers(heads, context.problem.label_vectors.to(context.device), scale)
    scores = predict_probabilities(network, context.inputs.test(), scorers)
    return scorers.split(_gathered(context, scores, len(heads) * dataset.num_classes))


def are_right(context: Context, network: nn.Module, index: Tensor, head: Head) -> NDArray[np.bool_]:
    """Return which training images at ``index`` a head of the network classifies correctly."""
    scores = training_scores(context, network, index, head)
    right: NDArray[np.bool_] = scores.argmax(axis=1) == context.problem.dataset.train_labels[index].numpy()
    return right


def rights_of(context: Context, scores: NDArray[np.float32]) -> NDArray[np.bool_]:
    """Return which test images with a known class are classified correctly, given probabilities (N, K)."""
    labels = context.problem.dataset.test_labels
    assert labels is not None
    right: NDArray[np.bool_] = (scores.argmax(axis=1) == labels.numpy())[labels.numpy() >= 0]
    return right


def validate(context: Context, network: nn.Module) -> dict[str, float]:
    """Return the accuracy on the images with a label, and on the validation images if there are any, as metrics."""
    labelled, head = context.problem.split.labelled, context.config.evaluation.head
    some = torch.from_numpy(labelled[:: 1 + len(labelled) // MOST_LABELLED])
    metrics = {"labelled_accuracy": float(are_right(context, network, some, head).mean())}
    value = validation_accuracy(context, network, head)
    if value is not None:
        return metrics | {"validation_accuracy": value}
    # The paper's convergence plots (Fig. 4 a, b) show test errors of runs that hold out no images.
    tested = evaluate(context, test_scores(context, network, head), head)
    return metrics if tested is None else metrics | {TEST_ACCURACY: tested.accuracy}


def validation_accuracy(context: Context, network: nn.Module, head: Head) -> float | None:
    """Return the accuracy on the validation images, if there are any."""
    index = torch.from_numpy(context.problem.split.validation)
    if len(index) == 0:
        return None
    scores = training_scores(context, network, index, head)
    return accuracy(scores, context.problem.dataset.train_labels[index].numpy())


def evaluate(context: Context, scores: NDArray[np.float32] | None, head: Head) -> Evaluation | None:
    """Evaluate the test images; nothing is selected by them."""
    dataset = context.problem.dataset
    if scores is None or dataset.test_labels is None:
        return None
    group_ids = context.problem.groups.group_ids
    return evaluate_probabilities(scores, dataset.test_labels.numpy(), dataset.class_names, group_ids, head)


def _scores(context: Context, network: nn.Module, batches: Iterable[Tensor], head: Head) -> NDArray[np.float32]:
    """Return the probabilities (N, K) of all inputs, gathered from the shares of all processes."""
    scorer = Scorer(head, context.problem.label_vectors.to(context.device), context.method.scale)
    return _gathered(context, predict_probabilities(network, batches, scorer), context.problem.dataset.num_classes)


def _gathered(context: Context, scores: NDArray[np.float32], columns: int) -> NDArray[np.float32]:
    """Return the rows of all processes; the rows of a process without images have no columns."""
    scores = scores.reshape(-1, columns)
    everything: NDArray[np.float32] = gather_uneven_rows(torch.from_numpy(scores), context.processes).numpy()
    return everything
