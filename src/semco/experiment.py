"""A run from its configuration to its result: what the rooms offer, put together once.

`train` makes a run folder and fills it, `resume` goes on with one; both end with the model saved, the test set
evaluated, the pool pseudo-labelled and the report written.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from semco.config import Config
from semco.data.batches import Batches
from semco.data.datasets import Dataset
from semco.data.sources import load
from semco.data.split import Split, make_split
from semco.data.views import Augment
from semco.errors import UserError
from semco.evaluation.metrics import accuracy
from semco.evaluation.model_file import ModelDescription, SavedModel, save_model
from semco.evaluation.pool_labels import write_pool_labels
from semco.evaluation.predictions import Scorer, probabilities
from semco.evaluation.results import evaluate_probabilities, image_batches, write_evaluation
from semco.evaluation.samples import pick_samples
from semco.files import write_json, write_text
from semco.labels import label_source
from semco.labels.embeddings import LabelEmbeddings
from semco.labels.groups import Groups, group
from semco.methods import build_method
from semco.methods.base import Method
from semco.models import Network, build_network
from semco.report import write_report
from semco.training.distributed import Processes, from_main, gather_rows, process_group, together
from semco.training.execution import choose_device, prepare_network
from semco.training.loop import Observer, Silent, Trainer
from semco.training.pool import NetworkPool
from semco.training.run_folder import RunFolder, free_run_folder
from semco.types import Outputs, Task

Result = dict[str, Any]


def train(
    config: Config, out: Path | str | None = None, observer: Observer | None = None, dataset: Dataset | None = None
) -> Result:
    """Train as ``config`` says into the new folder ``out``; returns the content of its ``result.json``.

    ``dataset`` takes the place of what ``config.data.source`` names, for images that are in memory already.
    """
    processes = Processes.from_environment()
    watching = observer if observer is not None and processes.is_main else Silent()
    with process_group(processes):
        path = from_main(_path_of_run(config, out, processes), processes)
        if from_main(_was_begun(path, config, processes), processes):
            watching.on_message("a process had died: all start again from the last checkpoint")
            return _go_on(path, processes, watching)
        with together(processes):
            device = choose_device(config.training.device, processes)
            problem = prepare(config, None, watching, dataset)
        with together(processes):
            run = RunFolder.create(path, config) if processes.is_main else RunFolder(path)
        return _run(config, run, problem, device, processes, watching)


def resume(path: Path | str, observer: Observer | None = None) -> Result:
    """Go on with a run as if it had never stopped; a finished one only gives its result."""
    processes = Processes.from_environment()
    with process_group(processes):
        return _go_on(Path(path), processes, observer if observer is not None and processes.is_main else Silent())


def _go_on(path: Path, processes: Processes, observer: Observer) -> Result:
    with together(processes):
        run = RunFolder.open(path)
        config = run.config()
    if from_main(run.finished(), processes):
        return from_main(run.result() if processes.is_main else {}, processes)
    with together(processes):
        device = choose_device(config.training.device, processes)
        problem = prepare(config, run, observer)
    return _run(config, run, problem, device, processes, observer)


def _path_of_run(config: Config, out: Path | str | None, processes: Processes) -> Path:
    """Where to train; processes that were started anew look for what they began under a name of their own choice."""
    if out is not None:
        return Path(out)
    free = free_run_folder(config)
    stem = free.name.rpartition("-")[0]
    begun = [path for path in free.parent.glob(f"{stem}-*") if _was_begun(path, config, processes)]
    return max(begun, key=lambda path: path.stat().st_mtime, default=free)


def _was_begun(path: Path, config: Config, processes: Processes) -> bool:
    """Whether this is the run that the same processes worked on before torchrun started them anew."""
    return processes.restarts > 0 and (path / "config.yaml").is_file() and RunFolder.open(path).config() == config


@dataclass(frozen=True)
class Problem:
    """What is to be learnt: images, which of them are labelled, and what the class names say."""

    dataset: Dataset
    split: Split
    labels: LabelEmbeddings | None  # None: no vectors for these names, and the method does without
    groups: Groups
    matrix: Tensor  # (K, d), the semantic head's targets
    scale: float | None = None  # of the cosines when the semantic head predicts

    def task(self) -> Task:
        known = self.dataset.train_labels[torch.from_numpy(self.split.labelled)]
        return Task(
            class_names=self.dataset.class_names,
            embeddings=self.matrix,
            groups=torch.from_numpy(self.groups.labels),
            labelled_counts=torch.bincount(known, minlength=self.dataset.num_classes),
            pool_size=len(self.split.unlabelled),
        )


def prepare(config: Config, run: RunFolder | None, observer: Observer, dataset: Dataset | None = None) -> Problem:
    """Data, split (that of ``run`` where there is one) and label prior."""
    dataset = dataset or load(config.data, observer.on_loading)
    if dataset.skipped:
        named = ", ".join(dataset.skipped[:3]) + (" ..." if len(dataset.skipped) > 3 else "")
        observer.on_message(f"skipped {len(dataset.skipped)} unreadable image(s): {named}")
    if run is not None and run.split_file.exists():
        split = Split.from_json(run.split_file.read_text(encoding="utf-8"), dataset.train_labels)
    else:
        split = make_split(dataset.train_labels, config.data, config.training.seed, dataset.class_names)
    semantic = "semantic" in Method.registry[config.method.name].heads
    labels, groups = _label_prior(config, dataset.class_names, semantic, observer)
    matrix = _targets(config, labels, dataset.num_classes)
    problem = Problem(dataset, split, labels, groups, matrix)
    return replace(problem, scale=build_method(config.method, problem.task()).scale)


def _label_prior(
    config: Config, names: tuple[str, ...], semantic: bool, observer: Observer
) -> tuple[LabelEmbeddings | None, Groups]:
    """Vectors and groups of the class names; a method without a semantic head does without where there are none."""
    try:
        labels = label_source(config.labels).vectors(names)
    except UserError as error:
        if semantic:
            raise
        observer.on_message(f"no label groups in the statistics: {error}")
        return None, Groups(names, torch.arange(len(names)).numpy(), 0.0)
    groups = group(labels, config.labels.eps)
    for note in (*labels.notes, *groups.notes):
        observer.on_message(note)
    return labels, groups


def _targets(config: Config, labels: LabelEmbeddings | None, num_classes: int) -> Tensor:
    if labels is None or config.labels.targets == "one_hot":
        return torch.eye(num_classes)
    return torch.from_numpy(labels.matrix)


def _run(
    config: Config,
    run: RunFolder,
    problem: Problem,
    device: torch.device,
    processes: Processes,
    observer: Observer,
) -> Result:
    if processes.is_main:
        _write_prior(run, problem)
    trainer = build_trainer(config, run, problem, device, processes, observer)
    trainer.run()
    return _finish(config, run, problem, trainer, device, processes)


def _write_prior(run: RunFolder, problem: Problem) -> None:
    write_text(run.split_file, problem.split.to_json() + "\n")
    labels = problem.labels
    write_json(
        run.labels_file,
        {
            "names": list(problem.dataset.class_names),
            "terms": list(labels.terms) if labels else [],
            "routes": list(labels.routes) if labels else [],
            "source": labels.source if labels else "none",
            "eps": problem.groups.eps,
            "groups": problem.groups.labels.tolist(),
            "scale": problem.scale,
        },
    )


def build_trainer(
    config: Config,
    run: RunFolder,
    problem: Problem,
    device: torch.device,
    processes: Processes,
    observer: Observer,
) -> Trainer:
    """Network, method, batches and the loop over them; the seed alone decides the initial weights."""
    dataset, task = problem.dataset, problem.task()
    method = build_method(config.method, task).to(device)
    torch.manual_seed(config.training.seed)
    network = build_network(
        config.model,
        method.heads,
        dataset.num_classes,
        problem.matrix.shape[1],
        dataset.channels,
        max(dataset.image_size),
    )
    network = prepare_network(network, config.training, device)
    augment = Augment(config.augment, torch.tensor(dataset.mean), torch.tensor(dataset.std))
    batches = Batches(
        dataset.train_images,
        dataset.train_labels,
        problem.split,
        method.views,
        augment,
        batch_size=config.training.batch_size,
        mu=config.training.mu,
        seed=config.training.seed,
        rank=processes.rank,
        world_size=processes.world_size,
        device=device,
    )
    return Trainer(
        config,
        network,
        method,
        batches,
        task.groups.to(device),
        run,
        validate=lambda average: _validation(average, problem, config, device, processes),
        pool=lambda student: _pool(student, problem, augment, device, processes),
        observer=observer,
        processes=processes,
    )


def _pool(
    network: nn.Module, problem: Problem, augment: Augment, device: torch.device, processes: Processes
) -> NetworkPool:
    dataset, split = problem.dataset, problem.split
    parts = torch.from_numpy(split.labelled), torch.from_numpy(split.unlabelled)
    images, labels = dataset.train_images, dataset.train_labels
    return NetworkPool(network, augment, images, labels, *parts, device=device, processes=processes)


def _scores(
    network: nn.Module,
    images: Tensor,
    problem: Problem,
    config: Config,
    device: torch.device,
    processes: Processes,
) -> NDArray[np.float32]:
    """(N, K) probabilities of images; each process looks at its share, and each gets them all."""
    dataset, evaluation = problem.dataset, config.evaluation
    share = images[processes.share(len(images))]
    batches = image_batches(share, dataset.mean, dataset.std, evaluation.batch_size, device)
    scorer = Scorer(evaluation.head, problem.matrix.to(device), problem.scale)
    scores = probabilities(network, batches, scorer).reshape(-1, dataset.num_classes)
    everything: NDArray[np.float32] = gather_rows(torch.from_numpy(scores), processes).numpy()
    return everything


def _validation(
    network: nn.Module, problem: Problem, config: Config, device: torch.device, processes: Processes
) -> dict[str, float]:
    """Accuracy on the held-out images, if there are any."""
    index = torch.from_numpy(problem.split.validation)
    if len(index) == 0:
        return {}
    dataset = problem.dataset
    scores = _scores(network, dataset.train_images[index], problem, config, device, processes)
    return {"validation_accuracy": accuracy(scores, dataset.train_labels[index].numpy())}


def _finish(
    config: Config,
    run: RunFolder,
    problem: Problem,
    trainer: Trainer,
    device: torch.device,
    processes: Processes,
) -> Result:
    """Model, pseudo-labels, test numbers, result and report, in an order that a kill may interrupt anywhere.

    All processes look at the images; the main one writes.
    """
    network, dataset = trainer.average, problem.dataset
    assert isinstance(network, Network)
    augment = Augment(config.augment, torch.tensor(dataset.mean), torch.tensor(dataset.std))
    outputs = _pool(network, problem, augment, device, processes).unlabelled()
    validation = _validation(network, problem, config, device, processes)
    scores = None
    if dataset.test_images is not None and dataset.test_labels is not None:
        scores = _scores(network, dataset.test_images, problem, config, device, processes)
    result: Result = {}
    with together(processes):
        if processes.is_main:
            description = _description(config, problem, trainer.method)
            save_model(run.model, SavedModel(description, network, problem.matrix))
            _write_pool(run, problem, trainer, outputs)
            result = _result(config, run, problem, trainer, validation.get("validation_accuracy"))
            result |= _write_test(config, run, problem, scores)
            run.write_result(result)
            write_report([run.path], run.report_file, f"{config.method.name} on {dataset.name}")
    return from_main(result, processes)


def _result(
    config: Config, run: RunFolder, problem: Problem, trainer: Trainer, validation_accuracy: float | None
) -> Result:
    return {
        "method": config.method.name,
        "validation_accuracy": validation_accuracy,
        "test_accuracy": None,
        "test_error": None,
        "labels": len(problem.split.labelled),
        "steps": trainer.step,
        "seconds": round(trainer.seconds, 3),
        "run": str(run.path),
        "head": config.evaluation.head,
    }


def _description(config: Config, problem: Problem, method: Method[Any]) -> ModelDescription:
    dataset = problem.dataset
    return ModelDescription(
        class_names=dataset.class_names,
        image_size=dataset.image_size,
        channels=dataset.channels,
        mean=dataset.mean,
        std=dataset.std,
        model=config.model,
        heads=method.heads,
        embedding_dim=problem.matrix.shape[1],
        scale=problem.scale,
        groups=tuple(problem.groups.labels.tolist()),
        eps=problem.groups.eps,
        head=config.evaluation.head,
    )


@torch.no_grad()
def _write_pool(run: RunFolder, problem: Problem, trainer: Trainer, outputs: Outputs) -> None:
    """What the final model says of every unlabelled image; the method's own state stays as training left it."""
    split, dataset = problem.split, problem.dataset
    index = torch.arange(len(split.unlabelled), device=outputs.logits.device)
    said = copy.deepcopy(trainer.method).pseudo_labels(outputs, index)
    truth = dataset.train_labels[torch.from_numpy(split.unlabelled)].numpy()
    paths = None if dataset.train_paths is None else [dataset.train_paths[i] for i in split.unlabelled]
    write_pool_labels(run.pseudo_labels_file, split.unlabelled, truth, said, paths)


def _write_test(config: Config, run: RunFolder, problem: Problem, scores: NDArray[np.float32] | None) -> dict[str, Any]:
    """The test set is looked at once, at the end, and selects nothing."""
    dataset = problem.dataset
    if scores is None or dataset.test_images is None or dataset.test_labels is None:
        return {}
    truth = dataset.test_labels.numpy()
    evaluation = evaluate_probabilities(
        scores, truth, dataset.class_names, problem.groups.labels, config.evaluation.head
    )
    write_evaluation(run.path, evaluation, pick_samples(dataset.test_images, scores, truth))
    return evaluation.summary()
