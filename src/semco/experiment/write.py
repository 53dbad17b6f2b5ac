"""Write the output of a run: model, pseudo-labels, test numbers, result and report.

Shapes: N images, K classes, U unlabelled images.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from semco.data.names import is_none_of_these
from semco.data.split import LABELLED, hidden_truth
from semco.distributed.processes import broadcast_from_main, same_error_everywhere
from semco.evaluation.model_file import ModelDescription, SavedModel, save_model
from semco.evaluation.pool_labels import label_pool, write_pseudo_labels
from semco.evaluation.probabilities import Head, Scorer
from semco.evaluation.results import Evaluation, evaluate_probabilities, write_evaluation
from semco.evaluation.samples import Kind as SampleKind
from semco.evaluation.samples import Sample, pick_samples, surest_and_least_sure, unlabelled_samples
from semco.evaluation.thresholds import Threshold, find_thresholds
from semco.experiment.context import Context
from semco.experiment.cross_validation import Answers, Measured
from semco.experiment.evaluate import evaluate, rights_of, test_scores_by_head
from semco.experiment.judge import Verdict
from semco.files import readable_name
from semco.labels.store import unit_rows
from semco.models import Network
from semco.models.familiarity import fit_familiarity
from semco.report import write_report
from semco.run.accuracy import Kind
from semco.run.identity import run_digest
from semco.run.result import RunResult
from semco.suggestions.suggest import cover
from semco.training.statistics import describe_pool
from semco.types import Outputs, PseudoLabels

# Number of images that are ranked in the table of pseudo-labels by how much a label would help.
SUGGESTED = 200


@dataclass(frozen=True)
class Steps:
    """The steps of a run."""

    number: int = 0
    seconds_before: float = 0.0  # of those that were taken before the run was resumed


def write(context: Context, verdict: Verdict, steps: Steps) -> RunResult:
    """Write everything in an order that is safe to interrupt; all processes compute, the main one writes."""
    pool = context.model.pool(verdict.network)
    outputs, labelled = pool.unlabelled(), pool.labelled()
    network = context.model.complete(verdict.network)
    scores = test_scores_by_head(context, verdict.network, is_probe=verdict.keeps_probe)
    result: RunResult | None = None
    with same_error_everywhere(context.processes):
        if context.processes.is_main:
            found = {head: evaluate(context, values, head) for head, values in scores.items()}
            heads = {head: each for head, each in found.items() if each is not None}
            pseudo_labels = label_pool(context.method.pseudo_labels, outputs)
            thresholds = _add_familiarity(context, verdict.network, network)
            save_model(context.run.model, _saved_model(context, network, verdict.head, thresholds))
            measured = _measured(context, verdict, scores.get(verdict.head))
            result = _result(context, verdict, steps, measured, heads, pseudo_labels)
            context.run.write_result(result)
            # A failure from here on does not affect the result, and `resume` tries again.
            if verdict.head in heads:
                _write_test(context, scores[verdict.head], heads, verdict.head)
            elif verdict.held_out is not None and verdict.answers is not None and len(verdict.answers.index):
                unlabelled = _unlabelled_samples(context, outputs, pseudo_labels, verdict.head)
                _write_held_out(context, verdict.answers, verdict.held_out.kind, verdict.head, unlabelled)
            _write_pool(context, pseudo_labels, _suggested(context, outputs, labelled))
            write_report([context.run.path], context.run.report_file)
    result = broadcast_from_main(result, context.processes)
    assert result is not None
    return result


def _measured(context: Context, verdict: Verdict, scores: NDArray[np.float32] | None) -> Measured | None:
    """Return what the accuracy of the run is measured on: test images if there are any, else those held out."""
    if scores is None or context.problem.dataset.test_labels is None:
        return verdict.held_out
    return Measured("test", rights_of(context, scores), verdict.probe_test)


def _result(
    context: Context,
    verdict: Verdict,
    steps: Steps,
    measured: Measured | None,
    heads: Mapping[Head, Evaluation],
    pseudo_labels: Mapping[str, PseudoLabels],
) -> RunResult:
    problem, evaluation, held_out = context.problem, heads.get(verdict.head), verdict.held_out
    test = evaluation.summary() if evaluation else {}
    validated = held_out.accuracy if held_out is not None and held_out.kind == "validation" else None
    group_ids = torch.from_numpy(problem.groups.group_ids).to(context.device)
    return RunResult(
        method=context.config.method.name,
        run=str(context.run.path),
        num_labels=len(problem.split.labelled),
        steps=steps.number,
        seconds=round(steps.seconds_before + time.monotonic() - context.started, 3),
        accuracy=None if measured is None else measured.accuracy,
        untested_classes=_untested_classes(context, measured),
        validation_accuracy=None if validated is None else validated.value,
        validation_images=len(problem.split.validation),
        skipped_images=len(problem.dataset.skipped),
        pseudo_labels=describe_pool(pseudo_labels, _pool_truth(context).to(context.device), group_ids),
        probe=None if measured is None else measured.probe_result(is_kept=verdict.keeps_probe),
        precision=context.config.training.precision,
        heads={head: each.numbers() for head, each in heads.items()},
        **{"head": verdict.head, **test},
    )


def _untested_classes(context: Context, measured: Measured | None) -> list[str]:
    """Return the classes whose only label a cross-validation could not hold out (`fold_positions`)."""
    if measured is None or measured.accuracy is None or measured.accuracy.kind != "cross_validation":
        return []
    names = context.problem.dataset.class_names
    counts = torch.bincount(context.problem.labelled_class_ids, minlength=len(names)).tolist()
    return [readable_name(name) for name, count in zip(names, counts, strict=True) if count == 1]


@torch.no_grad()
def _add_familiarity(context: Context, trained: nn.Module, network: Network) -> tuple[Threshold, ...]:
    """Add the familiarity to the network, and return the thresholds of "none of these".

    Familiarity needs frozen features, because trained ones are adapted to the labelled photos. Data with a class for
    all other photos need no threshold.
    """
    problem = context.problem
    if not context.model.is_frozen or any(map(is_none_of_these, problem.dataset.class_names)):
        return ()
    assert isinstance(trained, Network)
    index, inputs, backbone = torch.from_numpy(problem.split.labelled), context.inputs.training, trained.backbone.eval()
    familiarity, values = fit_familiarity(
        lambda position: backbone(inputs.plain(index[position])),
        problem.labelled_class_ids,
        problem.dataset.num_classes,
    )
    thresholds = find_thresholds(values.numpy())
    if thresholds:
        network.familiarity = familiarity
    return thresholds


def _saved_model(context: Context, network: Network, head: Head, thresholds: tuple[Threshold, ...]) -> SavedModel:
    problem, method = context.problem, context.method
    dataset, groups = problem.dataset, problem.groups
    description = ModelDescription(
        class_names=dataset.class_names,
        image_size=dataset.image_size,
        channels=dataset.channels,
        mean=problem.mean,
        std=problem.std,
        model=context.config.model,
        heads=method.heads,
        embedding_dim=problem.label_vectors.shape[1],
        scale=method.scale,
        transform=None if network.transform is None else network.transform.shape,
        groups=tuple(groups.group_ids.tolist()),
        eps=groups.eps,
        thresholds=thresholds,
        head=head,
        precision=context.config.training.precision,
        seal=context.model.seal | {"configuration": run_digest(context.config)},
    )
    return SavedModel(description, network, problem.label_vectors)


def _pool_truth(context: Context) -> Tensor:
    """Return the true classes of the pool (U,) as `hidden_truth` does."""
    split = context.problem.split
    return hidden_truth(context.problem.dataset.train_labels, split)[torch.from_numpy(split.unlabelled)]


def _suggested(context: Context, outputs: Outputs, labelled: Outputs) -> NDArray[np.int64]:
    """Return the rank (U,) of each image of the pool among those most worth a label: 1, 2, ...; 0 for the others."""
    rows = np.flatnonzero(_pool_truth(context).numpy() != LABELLED)
    features, known = (unit_rows(each.features.float().numpy(force=True)) for each in (outputs, labelled))
    found = np.zeros(len(features), dtype=np.int64)
    chosen = [position for position, _ in cover(features[rows], known, SUGGESTED)]
    found[rows[chosen]] = np.arange(1, len(chosen) + 1)
    return found


def _write_pool(context: Context, pseudo_labels: Mapping[str, PseudoLabels], suggested: NDArray[np.int64]) -> None:
    dataset, split = context.problem.dataset, context.problem.split
    paths = None if dataset.train_paths is None else [dataset.train_paths[i] for i in split.unlabelled]
    truth, file = _pool_truth(context).numpy(), context.run.pseudo_labels_file
    write_pseudo_labels(file, split.unlabelled, truth, pseudo_labels, paths, dataset.class_names, suggested)


def _write_test(context: Context, scores: NDArray[np.float32], heads: Mapping[Head, Evaluation], head: Head) -> None:
    dataset = context.problem.dataset
    assert dataset.test_images is not None
    assert dataset.test_labels is not None
    samples = pick_samples(dataset.test_images, scores, dataset.test_labels.numpy())
    write_evaluation(context.run.path, heads[head], samples, heads)


def _write_held_out(context: Context, answers: Answers, kind: Kind, head: Head, unlabelled: Sequence[Sample]) -> None:
    """Without test images, the page shows predictions for training images whose labels were held out."""
    dataset, scores = context.problem.dataset, answers.scores
    truth = dataset.train_labels.numpy()[answers.index]
    evaluation = evaluate_probabilities(scores, truth, dataset.class_names, context.problem.groups.group_ids, head)
    samples = pick_samples(
        dataset.train_images, scores, truth, random=6, mistakes=24, index=answers.index, mistakes_first=True
    )
    write_evaluation(context.run.path, evaluation, [*samples, *unlabelled], kind=kind)


def _unlabelled_samples(
    context: Context, outputs: Outputs, pseudo_labels: Mapping[str, PseudoLabels], head: Head
) -> list[Sample]:
    """Return images of the pool that the model is most and least sure of."""
    index = context.problem.split.unlabelled
    rows = np.flatnonzero(_pool_truth(context).numpy() != LABELLED)
    pseudo = pseudo_labels.get(head) or next(iter(pseudo_labels.values()))
    class_ids, confidence = (each.numpy(force=True)[rows] for each in (pseudo.class_ids, pseudo.confidence))
    scorer = Scorer(head, context.problem.label_vectors.to(context.device), context.method.scale)
    kinds: tuple[SampleKind, ...] = ("sure", "unsure")
    samples: list[Sample] = []
    for kind, positions in zip(kinds, surest_and_least_sure(class_ids, confidence), strict=True):
        chosen = rows[positions]
        scores = scorer(outputs.rows(torch.from_numpy(chosen))).numpy(force=True)
        samples += unlabelled_samples(context.problem.dataset.train_images, index[chosen], scores, kind)
    return samples
