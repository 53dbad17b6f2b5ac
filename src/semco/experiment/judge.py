"""Judge the trained network against the linear probe, on images whose labels were held out, and keep the better one."""

from __future__ import annotations

import shutil
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from semco.evaluation.probabilities import Head
from semco.experiment.context import Context
from semco.experiment.cross_validation import Answers, Measured, fold_positions
from semco.experiment.evaluate import rights_of, test_scores, training_scores
from semco.experiment.fit import make_trainer
from semco.run.accuracy import Kind, Right, percent
from semco.training.signals import Interrupted

# Training has failed if the accuracy on the training labels is below this fraction of that of the probe.
LEARNED = 0.8


@dataclass(frozen=True)
class Yardstick:
    """The linear probe on the initial features, and which test images it classifies correctly, if there are any."""

    network: nn.Module
    test: Right | None


@dataclass(frozen=True)
class Verdict:
    """The network that is kept, the head that predicts, and its accuracy on held-out labels."""

    network: nn.Module
    head: Head
    keeps_probe: bool = False
    held_out: Measured | None = None
    probe_test: Right | None = None
    """Which test images the probe classifies correctly; None if there are no test images or no probe."""
    answers: Answers | None = None
    """What the kept kind of network predicts for the images of ``held_out``; each was fitted without their labels."""


def measure_probe(context: Context) -> Yardstick | None:
    """Return the linear probe in runs from loaded weights; call it before training."""
    if context.model.probe is None:
        return None
    network = context.model.probe_part()
    scores = test_scores(context, network, "one_hot")
    return Yardstick(network, None if scores is None else rights_of(context, scores))


def judge(context: Context, trained: nn.Module, yardstick: Yardstick | None) -> Verdict:
    """Return the trained network, or the probe if that is better on images whose labels were held out."""
    head, validation = context.config.evaluation.head, torch.from_numpy(context.problem.split.validation)
    labels = context.problem.dataset.train_labels
    if yardstick is None:
        if not len(validation):
            return Verdict(trained, head)
        answers = _answers(context, trained, validation, head)
        return Verdict(trained, head, held_out=Measured("validation", answers.right(labels)), answers=answers)
    compared = _compare(context, trained, yardstick.network)
    if compared is None:
        if _has_collapsed(context, trained, yardstick.network):
            return Verdict(yardstick.network, "one_hot", True, None, yardstick.test)
        return Verdict(trained, head, False, None, yardstick.test)
    kind: Kind = "validation" if len(validation) else "cross_validation"
    measured = Measured(kind, *(each.right(labels) for each in compared))
    if measured.is_probe_better():
        assert measured.difference is not None
        context.observer.on_message(
            f"the linear probe is better than the trained network ({measured.difference.describe()}) on images whose "
            "labels were held out: the probe is kept"
        )
        return Verdict(yardstick.network, "one_hot", True, measured.keep_probe(), yardstick.test, compared[1])
    return Verdict(trained, head, False, measured, yardstick.test, compared[0])


def _has_collapsed(context: Context, trained: nn.Module, probe: nn.Module) -> bool:
    """Return whether the trained network is wrong on many of its training labels that the probe has learned."""
    index = torch.from_numpy(context.problem.split.labelled)
    labels = context.problem.dataset.train_labels
    learned, known = (float(each.right(labels).mean()) for each in _answers_of_both(context, trained, probe, index))
    if learned >= LEARNED * known:
        return False
    context.observer.on_message(
        f"the trained network is right for {percent(learned)} of the labels that it learned from, the linear probe "
        f"for {percent(known)}: training has failed, and the probe is kept"
    )
    return True


def _compare(context: Context, trained: nn.Module, probe: nn.Module) -> tuple[Answers, Answers] | None:
    """Return the predictions of both for the validation images, or by cross-validation if there are none."""
    split = context.problem.split
    if len(split.validation):
        index = torch.from_numpy(split.validation)
        return _answers_of_both(context, trained, probe, index)
    folds = folds_of(context)
    if not folds:
        context.observer.on_message("not compared with the linear probe: there are too few labels to hold some out")
        return None
    outcomes = []
    for number, held_out in enumerate(folds, start=1):
        context.observer.on_message(f"comparing with the linear probe: held-out labels, part {number} of {len(folds)}")
        outcomes.append(_outcome_of_fold(context, number, held_out))
    shutil.rmtree(context.run.folds, ignore_errors=True)
    of_trained, of_probe = zip(*outcomes, strict=True)
    return Answers.join(of_trained), Answers.join(of_probe)


def folds_of(context: Context) -> list[NDArray[np.int64]]:
    """Return the positions of the labels of each fold; none if none are asked for or there are too few labels."""
    class_ids = context.problem.labelled_class_ids.numpy()
    return fold_positions(class_ids, context.config.evaluation.folds, context.config.training.seed)


def _outcome_of_fold(context: Context, number: int, held_out: NDArray[np.int64]) -> tuple[Answers, Answers]:
    """Train without some labels; return what the network and the probe predict for their images."""
    part = context.without_labels(held_out, str(number))
    part.run.checkpoints.mkdir(parents=True, exist_ok=True)
    trainer = make_trainer(part)
    probe = part.model.probe_part()
    try:
        trainer.run()
    except Interrupted as stopped:  # the folder of a fold cannot be resumed by itself
        raise Interrupted(stopped.number, context.config.training.total_steps, context.run.path) from None
    return _answers_of_both(part, trainer.average, probe, torch.from_numpy(context.problem.split.labelled[held_out]))


def _answers_of_both(context: Context, trained: nn.Module, probe: nn.Module, index: Tensor) -> tuple[Answers, Answers]:
    head = context.config.evaluation.head
    return _answers(context, trained, index, head), _answers(context, probe, index, "one_hot")


def _answers(context: Context, network: nn.Module, index: Tensor, head: Head) -> Answers:
    return Answers(index.numpy(), training_scores(context, network, index, head))
