"""One run in progress: its trainer, its validation, and everything that is written when it ends.

Shapes: N images, K classes, U unlabelled images.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from semco.config import Config, MethodConfig
from semco.data.batches import Batches
from semco.data.split import hidden_truth
from semco.data.views import Augment
from semco.distributed.processes import Processes, broadcast_from_main, gather_uneven_rows, same_error_everywhere
from semco.evaluation.metrics import accuracy
from semco.evaluation.model_file import ModelDescription, SavedModel, save_model
from semco.evaluation.pool_labels import write_pseudo_labels
from semco.evaluation.probabilities import Scorer, predict_probabilities
from semco.evaluation.results import Evaluation, evaluate_probabilities, image_batches, write_evaluation
from semco.evaluation.samples import pick_samples
from semco.experiment.problem import Problem, write_problem
from semco.methods import build_method, describe_method
from semco.methods.base import Method
from semco.models import Network, build_network
from semco.report import write_report
from semco.run.folder import RunFolder
from semco.run.identity import run_digest
from semco.run.result import RunResult
from semco.training.execution import prepare_network
from semco.training.loop import Trainer
from semco.training.observer import Observer
from semco.training.pool import NetworkPool
from semco.training.statistics import describe_pool
from semco.types import Outputs, PseudoLabels


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
        with ExitStack() as stack:
            with same_error_everywhere(self.processes):
                if self.processes.is_main:
                    stack.enter_context(self.run.lock())
                    self.run.remove_leftovers()
                    write_problem(self.run, self.problem, self.config, self._method.scale)
            trainer = self._trainer()
            self.observer.on_message(f"method: {describe_method(self.config.method.name)}")
            self.observer.on_message(f"{self.problem.counts()}; {self.config.training.total_steps:,} steps")
            trainer.run()
            return self._finish(trainer)

    @cached_property
    def _method(self) -> Method[MethodConfig]:
        torch.manual_seed(self.config.training.seed)  # a method may have trainable layers of its own
        return build_method(self.config.method, self.problem.task()).to(self.device)

    @cached_property
    def _augment(self) -> Augment:
        dataset = self.problem.dataset
        return Augment(self.config.augment, torch.tensor(dataset.mean), torch.tensor(dataset.std))

    def _network(self) -> Network:
        """Return a freshly initialised network; the seed alone decides the weights."""
        dataset = self.problem.dataset
        torch.manual_seed(self.config.training.seed)
        network = build_network(
            self.config.model,
            self._method.heads,
            dataset.num_classes,
            self.problem.label_vectors.shape[1],
            dataset.channels,
            max(dataset.image_size),
        )
        return prepare_network(network, self.config.training, self.device)

    def _batches(self) -> Batches:
        dataset, training = self.problem.dataset, self.config.training
        return Batches(
            dataset.train_images,
            dataset.train_labels,
            self.problem.split,
            self._method.views,
            self._augment,
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
            self._network(),
            self._method,
            self._batches(),
            torch.from_numpy(self.problem.groups.group_ids).to(self.device),
            self.run,
            seal=self.problem.seal,
            validate=self._validate,
            pool=self._pool,
            observer=self.observer,
            processes=self.processes,
        )

    def _pool(self, network: nn.Module) -> NetworkPool:
        dataset, split = self.problem.dataset, self.problem.split
        parts = torch.from_numpy(split.labelled), torch.from_numpy(split.unlabelled)
        images, labels = dataset.train_images, dataset.train_labels
        return NetworkPool(network, self._augment, images, labels, *parts, device=self.device, processes=self.processes)

    def _scores(self, network: nn.Module, images: Tensor) -> NDArray[np.float32]:
        """Return the probabilities (N, K) of images; each process computes its share and gets all of them."""
        dataset, evaluation = self.problem.dataset, self.config.evaluation
        share = images[self.processes.share(len(images))]
        batches = image_batches(share, dataset.mean, dataset.std, evaluation.batch_size, self.device)
        scorer = Scorer(evaluation.head, self.problem.label_vectors.to(self.device), self._method.scale)
        scores = predict_probabilities(network, batches, scorer).reshape(-1, dataset.num_classes)
        everything: NDArray[np.float32] = gather_uneven_rows(torch.from_numpy(scores), self.processes).numpy()
        return everything

    def _validate(self, network: nn.Module) -> dict[str, float]:
        """Return the accuracy on the validation images, if there are any."""
        index = torch.from_numpy(self.problem.split.validation)
        if len(index) == 0:
            return {}
        dataset = self.problem.dataset
        scores = self._scores(network, dataset.train_images[index])
        return {"validation_accuracy": accuracy(scores, dataset.train_labels[index].numpy())}

    def _finish(self, trainer: Trainer) -> RunResult:
        """Write model, pseudo-labels, test numbers, result and report, in an order that a kill may interrupt anywhere.

        All processes compute; the main one writes.
        """
        network, dataset = trainer.average, self.problem.dataset
        assert isinstance(network, Network)
        outputs = self._pool(network).unlabelled()
        validation = self._validate(network)
        scores = self._scores(network, dataset.test_images) if dataset.test_images is not None else None
        result: RunResult | None = None
        with same_error_everywhere(self.processes):
            if self.processes.is_main:
                evaluation, pseudo_labels = self._evaluate(scores), self._pseudo_labels(outputs)
                save_model(self.run.model, SavedModel(self._description(), network, self.problem.label_vectors))
                result = self._result(trainer, validation.get("validation_accuracy"), evaluation, pseudo_labels)
                self.run.write_result(result)
                # Whatever fails from here on does not cost the result, and `resume` tries it again.
                self._write_test(evaluation, scores)
                self._write_pool(pseudo_labels)
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
    ) -> RunResult:
        test = evaluation.summary() if evaluation else {}
        group_ids = torch.from_numpy(self.problem.groups.group_ids).to(self.device)
        return RunResult(
            method=self.config.method.name,
            run=str(self.run.path),
            num_labels=len(self.problem.split.labelled),
            steps=trainer.state.step,
            seconds=round(trainer.state.seconds, 3),
            validation_accuracy=validation_accuracy,
            pseudo_labels=describe_pool(pseudo_labels, self._pool_truth().to(self.device), group_ids),
            **{"head": self.config.evaluation.head, **test},
        )

    def _description(self) -> ModelDescription:
        dataset, groups = self.problem.dataset, self.problem.groups
        return ModelDescription(
            class_names=dataset.class_names,
            image_size=dataset.image_size,
            channels=dataset.channels,
            mean=dataset.mean,
            std=dataset.std,
            model=self.config.model,
            heads=self._method.heads,
            embedding_dim=self.problem.label_vectors.shape[1],
            scale=self._method.scale,
            groups=tuple(groups.group_ids.tolist()),
            eps=groups.eps,
            head=self.config.evaluation.head,
            seal=self.problem.seal | {"configuration": run_digest(self.config)},
        )

    @torch.no_grad()
    def _pseudo_labels(self, outputs: Outputs) -> Mapping[str, PseudoLabels]:
        """Return the final pseudo-labels of every unlabelled image, by head."""
        index = torch.arange(len(self.problem.split.unlabelled), device=outputs.logits.device)
        return self._method.pseudo_labels(outputs, index)

    def _pool_truth(self) -> Tensor:
        """Return the true classes of the pool (U,), -1 where they are not known."""
        split = self.problem.split
        return hidden_truth(self.problem.dataset.train_labels, split)[torch.from_numpy(split.unlabelled)]

    def _write_pool(self, pseudo_labels: Mapping[str, PseudoLabels]) -> None:
        split, paths = self.problem.split, self.problem.dataset.train_paths
        chosen = None if paths is None else [paths[i] for i in split.unlabelled]
        truth = self._pool_truth().numpy()
        write_pseudo_labels(self.run.pseudo_labels_file, split.unlabelled, truth, pseudo_labels, chosen)

    def _evaluate(self, scores: NDArray[np.float32] | None) -> Evaluation | None:
        """Evaluate the test images, once and at the end; they select nothing."""
        dataset = self.problem.dataset
        if scores is None or dataset.test_labels is None:
            return None
        group_ids, head = self.problem.groups.group_ids, self.config.evaluation.head
        return evaluate_probabilities(scores, dataset.test_labels.numpy(), dataset.class_names, group_ids, head)

    def _write_test(self, evaluation: Evaluation | None, scores: NDArray[np.float32] | None) -> None:
        dataset = self.problem.dataset
        if evaluation is None or scores is None or dataset.test_images is None or dataset.test_labels is None:
            return
        samples = pick_samples(dataset.test_images, scores, dataset.test_labels.numpy())
        write_evaluation(self.run.path, evaluation, samples)
