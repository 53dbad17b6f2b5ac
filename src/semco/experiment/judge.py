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
from semco.experiment.cross_validation import Comparison, fold_positions, number_of_folds
from semco.experiment.evaluate import are_right, evaluate, test_scores, validation_accuracy
from semco.experiment.fit import make_trainer
from semco.run.result import ProbeResult
from semco.training.signals import Interrupted

# Part of the labels that the probe has learned; a network that has learned fewer of them was not trained well.
LEARNED = 0.8


@dataclass(frozen=True)
class Yardstick:
    """The linear probe on the initial features, and what it achieves."""

    network: nn.Module
    result: ProbeResult


@dataclass(frozen=True)
class Verdict:
    """The network that is kept, the head that predicts, and the probe beside it."""

    network: nn.Module
    head: Head
    probe: ProbeResult | None

    @property
    def keeps_probe(self) -> bool:
        return self.probe is not None and self.probe.is_kept


def measure_probe(context: Context) -> Yardstick | None:
    """Return the linear probe and what it achieves, in runs from loaded weights; call it before training."""
    probe = context.model.probe
    if probe is None:
        return None
    network = context.model.probe_part()
    # Without steps the probe is the model, whose test images are evaluated at the end.
    scores = test_scores(context, network, "one_hot") if context.method.takes_steps else None
    evaluation = evaluate(context, scores, "one_hot")
    result = ProbeResult(
        strength=probe.strength,
        cross_validation=probe.cross_validation,
        validation_accuracy=validation_accuracy(context, network, "one_hot"),
        test_accuracy=None if evaluation is None else evaluation.accuracy,
    )
    return Yardstick(network, result)


def judge(context: Context, trained: nn.Module, yardstick: Yardstick | None) -> Verdict:
    """Return the trained network, or the probe if that is better on images whose labels were held out."""
    head = context.config.evaluation.head
    if yardstick is None:
        return Verdict(trained, head, None)
    result = yardstick.result
    if not context.method.takes_steps:
        return Verdict(trained, head, result)
    comparison = _compare(context, trained, yardstick.network)
    if comparison is None:
        is_kept = _has_collapsed(context, trained, yardstick.network)
    else:
        is_kept = comparison.is_probe_better()
        result = result.model_copy(
            update={
                "held_out_images": len(comparison.trained),
                "held_out_accuracy": comparison.probe_accuracy,
                "trained_accuracy": comparison.trained_accuracy,
            }
        )
        if is_kept:
            context.observer.on_message(_why_the_probe_is_kept(comparison))
    result = result.model_copy(update={"is_kept": is_kept})
    return Verdict(yardstick.network, "one_hot", result) if is_kept else Verdict(trained, head, result)


def _why_the_probe_is_kept(comparison: Comparison) -> str:
    return (
        f"the linear probe is right for {comparison.probe_accuracy:.1%} of {len(comparison.trained)} images whose "
        f"labels were held out, the trained network for {comparison.trained_accuracy:.1%}: the probe is kept"
    )


def _has_collapsed(context: Context, trained: nn.Module, probe: nn.Module) -> bool:
    """Return whether the trained network is wrong on many of its own labels, which the probe has learned."""
    index = torch.from_numpy(context.problem.split.labelled)
    learned, known = (float(each.mean()) for each in _right(context, trained, probe, index))
    if learned >= LEARNED * known:
        return False
    context.observer.on_message(
        f"the trained network is right for {learned:.1%} of the labels that it learned from, the linear probe for "
        f"{known:.1%}: training has failed, and the probe is kept"
    )
    return True


def _compare(context: Context, trained: nn.Module, probe: nn.Module) -> Comparison | None:
    """Compare with the probe on the validation images, or by cross-validation if there are none."""
    split = context.problem.split
    if len(split.validation):
        index = torch.from_numpy(split.validation)
        return Comparison(*_right(context, trained, probe, index))
    class_ids = context.problem.labelled_class_ids.numpy()
    folds = number_of_folds(context.config, class_ids)
    if not folds:
        context.observer.on_message("not compared with the linear probe: there are too few labels to hold some out")
        return None
    outcomes = []
    for number, held_out in enumerate(fold_positions(class_ids, folds, context.config.training.seed), start=1):
        context.observer.on_message(f"comparing with the linear probe: held-out labels, part {number} of {folds}")
        outcomes.append(_outcome_of_fold(context, number, held_out))
    shutil.rmtree(context.run.folds, ignore_errors=True)
    return Comparison(*(np.concatenate(each) for each in zip(*outcomes, strict=True)))


def _outcome_of_fold(
    context: Context, number: int, held_out: NDArray[np.int64]
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Train without some labels, and return for which of these images the trained network and the probe are right."""
    part = context.without_labels(held_out, str(number))
    part.run.checkpoints.mkdir(parents=True, exist_ok=True)
    trainer = make_trainer(part)
    probe = part.model.probe_part()
    try:
        trainer.run()
    except Interrupted as stopped:  # the folder of a part cannot be resumed by itself
        raise Interrupted(stopped.number, context.config.training.total_steps, context.run.path) from None
    return _right(part, trainer.average, probe, torch.from_numpy(context.problem.split.labelled[held_out]))


def _right(
    context: Context, trained: nn.Module, probe: nn.Module, index: Tensor
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    head = context.config.evaluation.head
    return are_right(context, trained, index, head), are_right(context, probe, index, "one_hot")
