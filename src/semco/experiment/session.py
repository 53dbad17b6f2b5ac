"""One run in progress: its trainer, its validation, and everything that is written when it ends.

Shapes: N images, K classes, U unlabelled images.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from semco.config import Config, MethodConfig
from semco.data.batches import Batches
from semco.data.inputs import images_at_a_time
from semco.data.split import LABELLED, hidden_truth
from semco.distributed.processes import Processes, broadcast_from_main, gather_uneven_rows, same_error_everywhere
from semco.evaluation.metrics import accuracy
from semco.evaluation.model_file import ModelDescription, SavedModel, save_model
from semco.evaluation.pool_labels import label_pool, write_pseudo_labels
from semco.evaluation.probabilities import Head, HeadScorers, Scorer, heads_of, predict_probabilities
from semco.evaluation.results import Evaluation, evaluate_probabilities, write_evaluation
from semco.evaluation.samples import pick_samples
from semco.experiment.cross_validation import Comparison, fold_positions, number_of_folds
from semco.experiment.model import RunModel
from semco.experiment.problem import Problem, precision_of, saved_precision, write_problem
from semco.experiment.selection import cover
from semco.labels.store import unit_rows
from semco.methods import build_method, describe_method
from semco.methods.base import Method
from semco.models import Network, Precision
from semco.report import write_report
from semco.run.data_record import write_data_record
from semco.run.folder import RunFolder
from semco.run.identity import run_digest
from semco.run.result import ProbeResult, RunResult
from semco.training.loop import Trainer
from semco.training.observer import Observer, WithoutLines
from semco.training.precision import Choice
from semco.training.signals import Interrupted
from semco.training.statistics import describe_pool
from semco.types import Outputs, PseudoLabels

# Images with a label on which the accuracy is measured while a run trains: enough for a curve, and soon done.
MOST_LABELLED = 1_000
# Part of the labels that the probe has learned; a network that has learned fewer of them was not trained well.
LEARNED = 0.8
# Images that get a place in the table of pseudo-labels by how much a label would help.
SUGGESTED = 200


@dataclass(frozen=True)
class Session:
    """Everything that a run needs, in one of possibly several processes."""

    config: Config
    run: RunFolder
    problem: Problem
    device: torch.device
    processes: Processes
    observer: Observer

    def execute(self) -> RunResult:
        """Train from the last checkpoint, or the start, and return the result."""
        precision = self._precision
        with ExitStack() as stack:
            with same_error_everywhere(self.processes):
                if self.processes.is_main:
                    stack.enter_context(self.run.lock())
                    self.run.remove_leftovers()
                    write_problem(self.run, self.problem, self.config, self._method.scale, precision)
                    write_data_record(self.run.path, self.config.data, self.problem.dataset)
            trainer = self._trainer()
            self.observer.on_message(f"method: {describe_method(self.config.method.name)}")
            steps = f"{self.config.training.total_steps:,}" if self._method.takes_steps else "no"
            self.observer.on_message(f"{self.problem.counts()}; {steps} steps")
            probe = self._measure_probe()
            if self._method.takes_steps:
                trainer.run()
            return self._finish(trainer, probe)

    @cached_property
    def _method(self) -> Method[MethodConfig]:
        torch.manual_seed(self.config.training.seed)  # a method may have trainable layers of its own
        return build_method(self.config.method, self.problem.task()).to(self.device)

    @cached_property
    def _precision(self) -> Precision:
        """The precision in which the run was started; a new run takes the one that its configuration leads to."""
        choice: Choice | None = None
        with same_error_everywhere(self.processes):
            if self.processes.is_main:
                choice = self._choose_precision()
        choice = broadcast_from_main(choice, self.processes)
        assert choice is not None
        if choice.reason:
            self.observer.on_message(choice.reason)
        return choice.precision

    def _choose_precision(self) -> Choice:
        if (saved := saved_precision(self.run)) is not None:
            return Choice(saved)
        return precision_of(self.config, self.problem, self.device)

    @cached_property
    def _model(self) -> RunModel:
        return RunModel(
            self.config,
            self.problem,
            self._method,
            self.run.path,
            self.device,
            self.processes,
            self.observer,
            self._precision,
        )

    def _batches(self) -> Batches:
        dataset, training = self.problem.dataset, self.config.training
        return Batches(
            self._model.inputs,
            dataset.train_labels,
            self.problem.split,
            self._method.views,
            batch_size=training.batch_size,
            mu=training.mu,
            seed=training.seed,
            rank=self.processes.rank,
            world_size=self.processes.world_size,
            device=self.device,
        )

    def _trainer(self) -> Trainer:
        return Trainer(
            self.config,
            self._model.initial(),
            self._method,
            self._batches(),
            torch.from_numpy(self.problem.groups.group_ids).to(self.device),
            self.run,
            seal=self._model.seal,
            validate=self._validate,
            pool=self._model.pool,
            observer=self.observer,
            processes=self.processes,
        )

    def _scores(self, network: nn.Module, batches: Iterable[Tensor], head: Head) -> NDArray[np.float32]:
        """Return the probabilities (N, K) of the inputs of all processes, of which each gives its share."""
        scorer = Scorer(head, self.problem.label_vectors.to(self.device), self._method.scale)
        return self._gathered(predict_probabilities(network, batches, scorer), self.problem.dataset.num_classes)

    def _gathered(self, scores: NDArray[np.float32], columns: int) -> NDArray[np.float32]:
        """Return the rows of all processes; those of a process without images have no columns yet."""
        scores = scores.reshape(-1, columns)
        everything: NDArray[np.float32] = gather_uneven_rows(torch.from_numpy(scores), self.processes).numpy()
        return everything

    def _test_scores(self, part: nn.Module, head: Head) -> NDArray[np.float32] | None:
        """Return the probabilities of the test images under a network with this trained part, if there are any."""
        if self.problem.dataset.test_images is None:
            return None
        return self._scores(part, self._model.test_inputs(), head)

    def _test_scores_by_head(self, part: nn.Module, is_probe: bool) -> dict[Head, NDArray[np.float32]]:
        """Return the probabilities of the test images by head, from one pass; a probe has no semantic head."""
        if self.problem.dataset.test_images is None:
            return {}
        heads = heads_of(None if is_probe else self._method.scale)
        scorers = HeadScorers(heads, self.problem.label_vectors.to(self.device), self._method.scale)
        scores = predict_probabilities(part, self._model.test_inputs(), scorers)
        return scorers.split(self._gathered(scores, len(heads) * self.problem.dataset.num_classes))

    def _validate(self, network: nn.Module) -> dict[str, float]:
        """Return the accuracy on the images with a label, and on the validation images if there are any, as metrics."""
        labelled = self.problem.split.labelled
        some = torch.from_numpy(labelled[:: 1 + len(labelled) // MOST_LABELLED])
        metrics = {"labelled_accuracy": float(self._are_right(network, some).mean())}
        value = self._validation_accuracy(network, self._configured_head)
        return metrics if value is None else metrics | {"validation_accuracy": value}

    def _validation_accuracy(self, network: nn.Module, head: Head) -> float | None:
        index = torch.from_numpy(self.problem.split.validation)
        if len(index) == 0:
            return None
        scores = self._training_scores(network, index, head)
        return accuracy(scores, self.problem.dataset.train_labels[index].numpy())

    def _training_scores(self, network: nn.Module, index: Tensor, head: Head) -> NDArray[np.float32]:
        """Return the probabilities of the training images at ``index``, without augmentation."""
        size = images_at_a_time(self.config.evaluation.batch_size, self._model.inputs.shape)
        share = index[self.processes.share(len(index))].split(size)
        return self._scores(network, map(self._model.inputs.plain, share), head)

    def _measure_probe(self) -> tuple[Network, ProbeResult] | None:
        """Return the linear probe on the initial features and what it achieves, in runs from loaded weights."""
        probe = self._model.probe
        if probe is None:
            return None
        network = self._model.probe_part()
        # Without steps the probe is the model, whose test images are evaluated at the end.
        scores = self._test_scores(network, "one_hot") if self._method.takes_steps else None
        evaluation = self._evaluate(scores, "one_hot")
        result = ProbeResult(
            strength=probe.strength,
            cross_validation=probe.cross_validation,
            validation_accuracy=self._validation_accuracy(network, "one_hot"),
            test_accuracy=None if evaluation is None else evaluation.accuracy,
        )
        return network, result

    def _choose(
        self, trained: nn.Module, probe: tuple[Network, ProbeResult] | None
    ) -> tuple[nn.Module, ProbeResult | None]:
        """Return the trained network, or the probe if that is better on images whose labels were held out."""
        if probe is None:
            return trained, None
        network, result = probe
        if not self._method.takes_steps:
            return trained, result
        comparison = self._compare(trained, network)
        if comparison is None:
            is_kept = self._has_collapsed(trained, network)
            return (network if is_kept else trained), result.model_copy(update={"is_kept": is_kept})
        result = result.model_copy(
            update={
                "held_out_images": len(comparison.trained),
                "held_out_accuracy": comparison.probe_accuracy,
                "trained_accuracy": comparison.trained_accuracy,
            }
        )
        if not comparison.is_probe_better():
            return trained, result
        self.observer.on_message(
            f"the linear probe is right for {comparison.probe_accuracy:.1%} of {len(comparison.trained)} images whose "
            f"labels were held out, the trained network for {comparison.trained_accuracy:.1%}: the probe is kept"
        )
        return network, result.model_copy(update={"is_kept": True})

    def _has_collapsed(self, trained: nn.Module, probe: nn.Module) -> bool:
        """Return whether the trained network is wrong on many of its own labels, which the probe has learned."""
        index = torch.from_numpy(self.problem.split.labelled)
        known = [
            float(each.mean()) for each in (self._are_right(trained, index), self._are_right(probe, index, "one_hot"))
        ]
        if known[0] >= LEARNED * known[1]:
            return False
        self.observer.on_message(
            f"the trained network is right for {known[0]:.1%} of the labels that it learned from, the linear probe for "
            f"{known[1]:.1%}: training has failed, and the probe is kept"
        )
        return True

    @property
    def _configured_head(self) -> Head:
        """The head that predicts, unless the model is the probe: by default that of the method's paper."""
        head = self.config.evaluation.head
        if head != "auto":
            return head
        return self._method.pretrained_head if self._model.is_pretrained else self._method.predicting_head

    def _head(self, probe: ProbeResult | None) -> Head:
        """Return the head that predicts: the configured one, or the one-hot head if the model is the probe."""
        return "one_hot" if probe is not None and probe.is_kept else self._configured_head

    def _compare(self, trained: nn.Module, probe: nn.Module) -> Comparison | None:
        """Compare with the probe on the validation images, or by cross-validation if there are none."""
        split = self.problem.split
        if len(split.validation):
            index = torch.from_numpy(split.validation)
            return Comparison(self._are_right(trained, index), self._are_right(probe, index, "one_hot"))
        class_ids = self.problem.labelled_class_ids.numpy()
        folds = number_of_folds(self.config, class_ids)
        if not folds:
            self.observer.on_message("not compared with the linear probe: there are too few labels to hold some out")
            return None
        outcomes = []
        for number, held_out in enumerate(fold_positions(class_ids, folds, self.config.training.seed), start=1):
            self.observer.on_message(f"comparing with the linear probe: held-out labels, part {number} of {folds}")
            try:
                outcomes.append(self._fold(number, held_out).outcome(torch.from_numpy(split.labelled[held_out])))
            except Interrupted as stopped:  # the folder of a part cannot be resumed by itself
                raise Interrupted(stopped.number, self.config.training.total_steps, self.run.path) from None
        shutil.rmtree(self.run.folds, ignore_errors=True)
        return Comparison(*(np.concatenate(each) for each in zip(*outcomes, strict=True)))

    def _fold(self, number: int, held_out: NDArray[np.int64]) -> Session:
        """Return the same run without the labels of a fold, in a folder inside the run folder."""
        split = self.problem.split
        rest = replace(split, labelled=np.delete(split.labelled, held_out))
        problem = replace(self.problem, split=rest)
        training = self.config.training.model_copy(update={"precision": self._precision})
        config = self.config.model_copy(update={"training": training})
        run, observer = RunFolder(self.run.folds / str(number)), WithoutLines(self.observer)
        return replace(self, config=config, run=run, problem=problem, observer=observer)

    def outcome(self, index: Tensor) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Train, and return for which training images the trained network is right, and for which the probe."""
        self.run.checkpoints.mkdir(parents=True, exist_ok=True)
        trainer = self._trainer()
        probe = self._model.probe_part()
        trainer.run()
        return self._are_right(trainer.average, index), self._are_right(probe, index, "one_hot")

    def _are_right(self, network: nn.Module, index: Tensor, head: Head | None = None) -> NDArray[np.bool_]:
        """Return for which training images at ``index`` the network, with the configured head, predicts the class."""
        scores = self._training_scores(network, index, head or self._configured_head)
        right: NDArray[np.bool_] = scores.argmax(axis=1) == self.problem.dataset.train_labels[index].numpy()
        return right

    def _finish(self, trainer: Trainer, probe: tuple[Network, ProbeResult] | None) -> RunResult:
        """Write model, pseudo-labels, test numbers, result and report, in an order that a kill may interrupt anywhere.

        All processes compute; the main one writes.
        """
        part, yardstick = self._choose(trainer.average, probe)
        head = self._head(yardstick)
        pool = self._model.pool(part)
        outputs, labelled = pool.unlabelled(), pool.labelled()
        validation = self._validation_accuracy(part, head)
        network = self._model.complete(part)
        is_probe = yardstick is not None and yardstick.is_kept
        scores = self._test_scores_by_head(part, is_probe)
        result: RunResult | None = None
        with same_error_everywhere(self.processes):
            if self.processes.is_main:
                evaluations = {each: self._evaluate(values, each) for each, values in scores.items()}
                heads = {each: found for each, found in evaluations.items() if found is not None}
                evaluation = heads.get(head)
                pseudo_labels = label_pool(self._method.pseudo_labels, outputs)
                save_model(self.run.model, SavedModel(self._description(head), network, self.problem.label_vectors))
                result = self._result(trainer, validation, evaluation, pseudo_labels, yardstick)
                numbers = {each: found.numbers() for each, found in heads.items()}
                result = result.model_copy(update={"heads": numbers})
                self.run.write_result(result)
                # Whatever fails from here on does not cost the result, and `resume` tries it again.
                self._write_test(evaluation, scores.get(head), heads)
                self._write_pool(pseudo_labels, self._suggested(outputs, labelled))
                write_report([self.run.path], self.run.report_file)
        result = broadcast_from_main(result, self.processes)
        assert result is not None
        return result

    def _result(
        self,
        trainer: Trainer,
        validation_accuracy: float | None,
        evaluation: Evaluation | None,
        pseudo_labels: Mapping[str, PseudoLabels],
        probe: ProbeResult | None,
    ) -> RunResult:
        test = evaluation.summary() if evaluation else {}
        if probe is not None and evaluation is not None and not self._method.takes_steps:
            probe = probe.model_copy(update={"test_accuracy": evaluation.accuracy})
        group_ids = torch.from_numpy(self.problem.groups.group_ids).to(self.device)
        return RunResult(
            method=self.config.method.name,
            run=str(self.run.path),
            num_labels=len(self.problem.split.labelled),
            steps=trainer.state.step,
            seconds=round(trainer.state.seconds, 3),
            validation_accuracy=validation_accuracy,
            validation_images=len(self.problem.split.validation),
            skipped_images=len(self.problem.dataset.skipped),
            pseudo_labels=describe_pool(pseudo_labels, self._pool_truth().to(self.device), group_ids),
            probe=probe,
            precision=self._precision,
            **{"head": self._head(probe), **test},
        )

    def _description(self, head: Head) -> ModelDescription:
        dataset, groups = self.problem.dataset, self.problem.groups
        return ModelDescription(
            class_names=dataset.class_names,
            image_size=dataset.image_size,
            channels=dataset.channels,
            mean=self.problem.mean,
            std=self.problem.std,
            model=self.config.model,
            heads=self._method.heads,
            embedding_dim=self.problem.label_vectors.shape[1],
            scale=self._method.scale,
            groups=tuple(groups.group_ids.tolist()),
            eps=groups.eps,
            head=head,
            precision=self._precision,
            seal=self._model.seal | {"configuration": run_digest(self.config)},
        )

    def _pool_truth(self) -> Tensor:
        """Return the true classes of the pool (U,) as `hidden_truth` does."""
        split = self.problem.split
        return hidden_truth(self.problem.dataset.train_labels, split)[torch.from_numpy(split.unlabelled)]

    def _suggested(self, outputs: Outputs, labelled: Outputs) -> NDArray[np.int64]:
        """Return the place of each image of the pool (U,) among those most worth a label: 1, 2, ..., 0 for others."""
        rows = np.flatnonzero(self._pool_truth().numpy() != LABELLED)
        features, known = (unit_rows(each.features.float().numpy(force=True)) for each in (outputs, labelled))
        found = np.zeros(len(features), dtype=np.int64)
        chosen = [position for position, _ in cover(features[rows], known, SUGGESTED)]
        found[rows[chosen]] = np.arange(1, len(chosen) + 1)
        return found

    def _write_pool(self, pseudo_labels: Mapping[str, PseudoLabels], suggested: NDArray[np.int64]) -> None:
        split, paths = self.problem.split, self.problem.dataset.train_paths
        chosen = None if paths is None else [paths[i] for i in split.unlabelled]
        truth = self._pool_truth().numpy()
        names = self.problem.dataset.class_names
        file = self.run.pseudo_labels_file
        write_pseudo_labels(file, split.unlabelled, truth, pseudo_labels, chosen, names, suggested)

    def _evaluate(self, scores: NDArray[np.float32] | None, head: Head) -> Evaluation | None:
        """Evaluate the test images, which select nothing."""
        dataset = self.problem.dataset
        if scores is None or dataset.test_labels is None:
            return None
        group_ids = self.problem.groups.group_ids
        return evaluate_probabilities(scores, dataset.test_labels.numpy(), dataset.class_names, group_ids, head)

    def _write_test(
        self,
        evaluation: Evaluation | None,
        scores: NDArray[np.float32] | None,
        heads: Mapping[Head, Evaluation],
    ) -> None:
        dataset = self.problem.dataset
        if evaluation is None or scores is None or dataset.test_images is None or dataset.test_labels is None:
            return
        samples = pick_samples(dataset.test_images, scores, dataset.test_labels.numpy())
        write_evaluation(self.run.path, evaluation, samples, heads)
