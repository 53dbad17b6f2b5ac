"""Fit the head of a method that takes no steps, and judge it against the linear probe on labels that were held out.

A linear probe on the plain view of each photo is fitted first. It is the baseline that the method is compared with.

Shapes: N labelled photos, V views, F features, D inputs of the head, K classes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from semco.config import MethodConfig
from semco.data.inputs import Inputs
from semco.data.randomness import make_numpy_generator
from semco.distributed.processes import broadcast_from_main, same_error_everywhere
from semco.experiment.context import Context
from semco.experiment.cross_validation import Answers, Measured
from semco.experiment.judge import Verdict, folds_of
from semco.methods import FittedMethod, describe_method
from semco.methods.linear_probe import LinearProbe, fit_probe
from semco.models import FeatureTransform, LinearHead
from semco.models.fitted import network_on_views
from semco.run.accuracy import Kind, Right

# Photos whose features are read at a time.
READ = 1024


@dataclass(frozen=True)
class Rows:
    """`semco.methods.base.Photos` from the inputs of a run."""

    inputs: Inputs
    index: Tensor  # positions in the inputs

    def __len__(self) -> int:
        return len(self.index)

    def read(self, position: Tensor) -> Tensor:
        return self.inputs.plain(self.index[position]).cpu()

    def through(self, change: Callable[[Tensor], Tensor]) -> Tensor:
        """Return the transformed features of all rows; only a few rows are in memory at a time."""
        parts = [change(self.read(part)) for part in torch.arange(len(self)).split(READ)]
        return torch.cat(parts) if parts else torch.empty(0, 0)


@dataclass(frozen=True)
class Candidate:
    """A fitted head, the transform of its inputs, and the photos of each kind that it classifies correctly."""

    head: LinearHead
    transform: FeatureTransform | None
    right: dict[Kind, Right]
    answers: Answers | None = None
    """Its predictions for the validation images, else those of the cross-validation."""


def fit_head(context: Context) -> Verdict:
    """Return the fitted network, or the probe if that is better on photos whose labels were held out."""
    method = context.method
    assert isinstance(method, FittedMethod)
    first = _on_main(context, partial(_fit_probe, context, *_inputs(context, has_close_up=False)))
    best = first
    if not isinstance(method, LinearProbe):
        context.observer.on_message(f"first answer, a linear probe: {_accuracy(first)}")
        views = _inputs(context, has_close_up=context.config.method.has_close_up)
        best = _on_main(context, partial(_fit_method, context, method, *views))
        context.observer.on_message(f"{describe_method(method.name)}: {_accuracy(best)}")
    return _judge(context, best, first)


def _judge(context: Context, best: Candidate, probe: Candidate) -> Verdict:
    """Compare both on validation images, or by cross-validation, and keep the probe only if it is better."""
    is_probe = best is probe
    kind: Kind = "validation" if "validation" in best.right else "cross_validation"
    measured = Measured(kind, best.right[kind], None if is_probe else probe.right[kind])
    is_kept = measured.is_probe_better()
    if is_kept:
        assert measured.difference is not None
        context.observer.on_message(f"the linear probe is better ({measured.difference.describe()}) and is kept")
        best, measured = probe, measured.keep_probe()
    network = network_on_views(context.problem.num_features, best.head, best.transform).to(context.device)
    probe_test = None if is_probe else probe.right.get("test")
    return Verdict(network, "one_hot", is_kept, measured, probe_test, best.answers)


def _on_main(context: Context, compute: Callable[[], Candidate]) -> Candidate:
    """Compute something in the main process and send the result to the others."""
    found: Candidate | None = None
    with same_error_everywhere(context.processes):
        if context.processes.is_main:
            found = compute()
    found = broadcast_from_main(found, context.processes)
    assert found is not None
    return found


def _inputs(context: Context, *, has_close_up: bool) -> tuple[Inputs, Inputs | None]:
    """Return the features of training and test photos, computed first if necessary. All processes must call this."""
    return context.inputs.views_of_training(has_close_up=has_close_up), context.inputs.views_of_test(
        has_close_up=has_close_up
    )


def _fit_probe(context: Context, training: Inputs, test: Inputs | None) -> Candidate:
    """Fit the linear probe; fits without held-out labels use the penalty that was chosen with all labels."""
    classes, class_ids = context.problem.dataset.num_classes, context.problem.labelled_class_ids
    x = _rows(training, context.problem.split.labelled).through(_plain)
    probe = fit_probe(x, class_ids, classes)

    def fit(rows: Tensor, own: Tensor) -> LinearHead:
        return fit_probe(rows, own, classes, probe.strength).head

    logits, held_out = _held_out(context, x, fit)
    return _measure(context, training, test, Candidate(probe.head, None, {}), logits, held_out)


def _fit_method(
    context: Context, method: FittedMethod[MethodConfig], training: Inputs, test: Inputs | None
) -> Candidate:
    """Fit the method to all labels and, to measure its accuracy, once per fold without the labels of the fold."""
    split, class_ids = context.problem.split, context.problem.labelled_class_ids
    pool = some_of(split.unlabelled, method.most_pool, context.config.training.seed)
    everything = np.union1d(split.labelled, pool)
    transform = method.transform(_rows(training, everything))
    features = method.features(_rows(training, everything), transform)
    change = _plain if transform is None else transform
    x, unlabelled = (_rows(training, each).through(change) for each in (split.labelled, pool))
    head = method.fit(x, class_ids, unlabelled, features)
    logits, held_out = _held_out(context, x, lambda rows, own: method.fit(rows, own, unlabelled, features))
    return _measure(context, training, test, Candidate(head, transform, {}), logits, held_out)


def _held_out(
    context: Context, x: Tensor, fit: Callable[[Tensor, Tensor], LinearHead]
) -> tuple[Tensor, NDArray[np.int64]]:
    """Return the logits (n, K) of labelled rows from heads fitted without them, and the positions of the rows."""
    class_ids = context.problem.labelled_class_ids
    folds = folds_of(context)
    logits = [torch.empty(0, context.problem.dataset.num_classes)]
    for fold in folds:
        kept = np.delete(np.arange(len(x)), fold)
        logits.append(fit(x[kept], class_ids[kept]).logits(x[fold]))
    return torch.cat(logits), np.concatenate([np.empty(0, np.int64), *folds])


def _measure(
    context: Context,
    training: Inputs,
    test: Inputs | None,
    fitted: Candidate,
    held_out_logits: Tensor,
    held_out: NDArray[np.int64],
) -> Candidate:
    """Return the candidate with the photos of each kind that it classifies correctly."""
    dataset, split = context.problem.dataset, context.problem.split
    change = _plain if fitted.transform is None else fitted.transform

    def logits(views: Tensor) -> Tensor:
        return fitted.head.logits(change(views))

    answers = _answers(split.labelled[held_out], held_out_logits)
    found: dict[Kind, Right] = {"cross_validation": answers.right(dataset.train_labels)}
    if len(split.validation):
        answers = _answers(split.validation, _rows(training, split.validation).through(logits))
        found["validation"] = answers.right(dataset.train_labels)
    if test is not None and (labels := dataset.test_labels) is not None:
        known = torch.nonzero(labels >= 0).flatten()
        predicted = Rows(test, known).through(lambda views: logits(views).argmax(dim=1))
        found["test"] = (predicted == labels[known]).numpy()
    return Candidate(fitted.head, fitted.transform, found, answers)


def _answers(index: NDArray[np.int64], logits: Tensor) -> Answers:
    return Answers(index, logits.softmax(dim=1).numpy())


def _accuracy(candidate: Candidate) -> str:
    """Return the accuracy of a candidate in one phrase: on test photos, else on photos whose labels were held out."""
    order: Sequence[Kind] = ("test", "validation", "cross_validation")
    kind = next(kind for kind in order if kind in candidate.right)
    accuracy = Measured(kind, candidate.right[kind]).accuracy
    return accuracy.describe() if accuracy else "there are no labels to test it on"


def _rows(inputs: Inputs, index: NDArray[np.int64]) -> Rows:
    return Rows(inputs, torch.from_numpy(index))


def _plain(views: Tensor) -> Tensor:
    return views[:, 0]


def some_of(index: NDArray[np.int64], most: int, seed: int) -> NDArray[np.int64]:
    """Return positions chosen at random, at most as many as asked for."""
    if len(index) <= most:
        return index
    return np.sort(make_numpy_generator(seed, "pool").choice(index, most, replace=False))
