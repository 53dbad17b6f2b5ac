"""One run being carried out: its trainer, its validation, and all that is written when it ends.

Shapes: N images, K classes, U unlabelled images.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from semco.config import Config
from semco.data.batches import Batches
from semco.data.split import hidden_truth
from semco.data.views import Augment
from semco.evaluation.metrics import accuracy
from semco.evaluation.model_file import ModelDescription, SavedModel, save_model
from semco.evaluation.pool_labels import write_pool_labels
from semco.evaluation.predictions import Scorer, probabilities
from semco.evaluation.results import evaluate_probabilities, image_batches, write_evaluation
from semco.evaluation.samples import pick_samples
from semco.experiment.problem import Problem, write_problem
from semco.methods import build_method
from semco.methods.base import Method
from semco.models import Network, build_network
from semco.report import write_report
from semco.training.distributed import Processes, from_main, gather_rows, together
from semco.training.execution import prepare_network
from semco.training.loop import Observer, Trainer
from semco.training.pool import NetworkPool
from semco.training.run_folder import RunFolder
from semco.training.statistics import describe_pool
from semco.types import Outputs

Result = dict[str, Any]


def report_on(run: RunFolder, config: Config, data: str) -> None:
    """The page about a finished run of ``data``."""
    write_report([run.path], run.report_file, f"{config.method.name} on {data}")


@dataclass(frozen=True)
class Session:
    """Everything a run needs, in one process of possibly several."""

    config: Config
    run: RunFolder
    problem: Problem
    device: torch.device
    processes: Processes
    observer: Observer

    def carry_out(self) -> Result:
        """From the last checkpoint, or the start, to the result."""
        with ExitStack() as held:
            with together(self.processes):
                if self.processes.is_main:
                    held.enter_context(self.run.held())
                    write_problem(self.run, self.problem)
            trainer = self._trainer()
            self.observer.on_message(f"{self.problem.counts()}; {self.config.training.total_steps:,} steps")
            trainer.run()
            return self._finish(trainer)

    @cached_property
    def _augment(self) -> Augment:
        dataset = self.problem.dataset
        return Augment(self.config.augment, torch.tensor(dataset.mean), torch.tensor(dataset.std))

    def _network(self, method: Method[Any]) -> Network:
        """Freshly initialised; the seed alone decides the weights."""
        dataset = self.problem.dataset
        torch.manual_seed(self.config.training.seed)
        network = build_network(
            self.config.model,
            method.heads,
            dataset.num_classes,
            self.problem.matrix.shape[1],
            dataset.channels,
            max(dataset.image_size),
        )
        return prepare_network(network, self.config.training, self.device)

    def _batches(self, method: Method[Any]) -> Batches:
        dataset, training = self.problem.dataset, self.config.training
        return Batches(
            dataset.train_images,
            dataset.train_labels,
            self.problem.split,
            method.views,
            self._augment,
            batch_size=training.batch_size,
            mu=training.mu,
            seed=training.seed,
            rank=self.processes.rank,
            world_size=self.processes.world_size,
            device=self.device,
        )

    def _trainer(self) -> Trainer:
        task = self.problem.task()
        torch.manual_seed(self.config.training.seed)  # a method may have trainable parts of its own
        method = build_method(self.config.method, task).to(self.device)
        return Trainer(
            self.config,
            self._network(method),
            method,
            self._batches(method),
            task.groups.to(self.device),
            self.run,
            validate=self._validation,
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
        """(N, K) probabilities of images; each process looks at its share, and each gets them all."""
        dataset, evaluation = self.problem.dataset, self.config.evaluation
        share = images[self.processes.share(len(images))]
        batches = image_batches(share, dataset.mean, dataset.std, evaluation.batch_size, self.device)
        scorer = Scorer(evaluation.head, self.problem.matrix.to(self.device), self.problem.scale)
        scores = probabilities(network, batches, scorer).reshape(-1, dataset.num_classes)
        everything: NDArray[np.float32] = gather_rows(torch.from_numpy(scores), self.processes).numpy()
        return everything

    def _validation(self, network: nn.Module) -> dict[str, float]:
        """Accuracy on the held-out images, if there are any."""
        index = torch.from_numpy(self.problem.split.validation)
        if len(index) == 0:
            return {}
        dataset = self.problem.dataset
        scores = self._scores(network, dataset.train_images[index])
        return {"validation_accuracy": accuracy(scores, dataset.train_labels[index].numpy())}

    def _finish(self, trainer: Trainer) -> Result:
        """Model, pseudo-labels, test numbers, result and report, in an order that a kill may interrupt anywhere.

        All processes look at the images; the main one writes.
        """
        network, dataset = trainer.average, self.problem.dataset
        assert isinstance(network, Network)
        outputs = self._pool(network).unlabelled()
        validation = self._validation(network)
        scores = self._scores(network, dataset.test_images) if dataset.test_images is not None else None
        result: Result = {}
        with together(self.processes):
            if self.processes.is_main:
                description = self._description(trainer.method)
                save_model(self.run.model, SavedModel(description, network, self.problem.matrix))
                result = self._result(trainer, validation.get("validation_accuracy"))
                result["pseudo_labels"] = self._write_pool(trainer.method, outputs)
                result |= self._write_test(scores)
                self.run.write_result(result)
                report_on(self.run, self.config, dataset.name)
        return from_main(result, self.processes)

    def _result(self, trainer: Trainer, validation_accuracy: float | None) -> Result:
        return {
            "method": self.config.method.name,
            "validation_accuracy": validation_accuracy,
            "test_accuracy": None,
            "test_error": None,
            "labels": len(self.problem.split.labelled),
            "steps": trainer.step,
            "seconds": round(trainer.seconds, 3),
            "run": str(self.run.path),
            "head": self.config.evaluation.head,
        }

    def _description(self, method: Method[Any]) -> ModelDescription:
        dataset, groups = self.problem.dataset, self.problem.groups
        return ModelDescription(
            class_names=dataset.class_names,
            image_size=dataset.image_size,
            channels=dataset.channels,
            mean=dataset.mean,
            std=dataset.std,
            model=self.config.model,
            heads=method.heads,
            embedding_dim=self.problem.matrix.shape[1],
            scale=self.problem.scale,
            groups=tuple(groups.labels.tolist()),
            eps=groups.eps,
            head=self.config.evaluation.head,
        )

    @torch.no_grad()
    def _write_pool(self, method: Method[Any], outputs: Outputs) -> Result:
        """What the final model says of every unlabelled image, and how much of it each head retains, how much rightly.

        The method is asked, not trained: its statistics stay as training left them.
        """
        split, dataset = self.problem.split, self.problem.dataset
        index = torch.arange(len(split.unlabelled), device=outputs.logits.device)
        said = method.eval().pseudo_labels(outputs, index)
        truth = hidden_truth(dataset.train_labels, split)[torch.from_numpy(split.unlabelled)]
        paths = None if dataset.train_paths is None else [dataset.train_paths[i] for i in split.unlabelled]
        write_pool_labels(self.run.pseudo_labels_file, split.unlabelled, truth.numpy(), said, paths)
        groups = torch.from_numpy(self.problem.groups.labels)
        return dict(describe_pool(said, truth.to(index.device), groups.to(index.device)))

    def _write_test(self, scores: NDArray[np.float32] | None) -> Result:
        """The test set is looked at once, at the end, and selects nothing."""
        dataset = self.problem.dataset
        if scores is None or dataset.test_images is None or dataset.test_labels is None:
            return {}
        truth = dataset.test_labels.numpy()
        groups, head = self.problem.groups.labels, self.config.evaluation.head
        evaluation = evaluate_probabilities(scores, truth, dataset.class_names, groups, head)
        write_evaluation(self.run.path, evaluation, pick_samples(dataset.test_images, scores, truth))
        return evaluation.summary()
