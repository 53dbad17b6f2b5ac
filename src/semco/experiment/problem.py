"""What is to be learnt: images, which of them are labelled, and what the class names say.

Shapes: K classes, d embedding size.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from semco.config import Config
from semco.data.datasets import Dataset
from semco.data.sources import load, source_exists
from semco.data.split import Split, make_split
from semco.errors import UserError
from semco.files import read_json, write_json, write_text
from semco.labels import label_source
from semco.labels.embeddings import LabelEmbeddings, centred
from semco.labels.groups import Groups, group
from semco.methods import build_method
from semco.methods.base import Method
from semco.models import feature_size
from semco.training.loop import Observer
from semco.training.run_folder import RunFolder
from semco.types import Task


@dataclass(frozen=True)
class Problem:
    """Data, split and label prior of a run."""

    dataset: Dataset
    split: Split
    labels: LabelEmbeddings | None  # None: no vectors for these names, and the method does without
    groups: Groups
    matrix: Tensor  # (K, d), the semantic head's targets
    num_features: int  # F, of the backbone
    scale: float | None = None  # of the cosines when the semantic head predicts

    def task(self) -> Task:
        """What a method may know of it."""
        known = self.dataset.train_labels[torch.from_numpy(self.split.labelled)]
        return Task(
            class_names=self.dataset.class_names,
            embeddings=self.matrix,
            groups=torch.from_numpy(self.groups.labels),
            labelled_counts=torch.bincount(known, minlength=self.dataset.num_classes),
            pool_size=len(self.split.unlabelled),
            num_features=self.num_features,
        )

    def counts(self) -> str:
        """How many images there are of each kind, for people."""
        dataset, split = self.dataset, self.split
        test = 0 if dataset.test_images is None else len(dataset.test_images)
        return (
            f"{dataset.num_classes} classes; {len(split.labelled):,} labelled images, "
            f"{split.num_without_label:,} without a label, "
            f"{len(split.validation):,} held out for validation, {test:,} to test on"
        )


def prepare(config: Config, run: RunFolder | None, observer: Observer, dataset: Dataset | None = None) -> Problem:
    """Data, split (that of ``run`` where there is one) and label prior."""
    semantic = "semantic" in Method.registry[config.method.name].heads
    if config.evaluation.head != "one_hot" and not semantic:
        raise UserError(
            f"evaluation.head={config.evaluation.head} needs a semantic head, which {config.method.name} has not; "
            "use evaluation.head=one_hot."
        )
    dataset = dataset or _load(config, run, observer)
    if dataset.skipped:
        named = ", ".join(dataset.skipped[:3]) + (" ..." if len(dataset.skipped) > 3 else "")
        observer.on_message(f"skipped {len(dataset.skipped)} unreadable image(s): {named}")
    if dataset.ignored:
        kinds = ", ".join(f"{count:,} {ending or 'without an ending'}" for ending, count in dataset.ignored.items())
        observer.on_message(f"left aside files that are not images of a class: {kinds}")
    if run is not None and run.split_file.exists():
        split = Split.from_json(run.split_file.read_text(encoding="utf-8"), dataset.train_labels)
    else:
        split = make_split(dataset.train_labels, config.data, config.training.seed, dataset.class_names)
    labels, groups = _label_prior(config, dataset.class_names, semantic, observer)
    matrix = _targets(config, labels, dataset.num_classes)
    features = feature_size(config.model, dataset.channels, max(dataset.image_size))
    problem = Problem(dataset, split, labels, groups, matrix, features)
    if run is not None:
        _refuse_another(problem, run)
    return replace(problem, scale=build_method(config.method, problem.task()).scale)


def _load(config: Config, run: RunFolder | None, observer: Observer) -> Dataset:
    if run is not None and not source_exists(config.data.source):
        raise UserError(
            f"{run.path} was begun with {config.data.source!r}, which is not there: put it back, or write where it is "
            f"now as data.source into {run.config_file}."
        )
    return load(config.data, observer.on_loading)


def _refuse_another(problem: Problem, run: RunFolder) -> None:
    """A run goes on with the images and label vectors that it was begun with; `write_problem` says what they were."""
    split, labels = (read_json(file) if file.exists() else {} for file in (run.split_file, run.labels_file))
    if split.get("images") not in (None, image_digest(problem.dataset.train_images)):
        raise UserError(
            f"the training images are not those that {run.path} was begun with: put the data back as it was, "
            "or start a new run."
        )
    same_groups = labels.get("groups") in (None, problem.groups.labels.tolist())
    begun, now = labels.get("vectors"), vector_traces(problem.matrix)
    if not same_groups or (begun is not None and not np.allclose(begun, now, atol=1e-3)):
        raise UserError(
            f"the label vectors are not those that {run.path} was begun with: put labels.path or the store back as it "
            "was, or start a new run."
        )


def image_digest(images: Tensor, most: int = 1000) -> str:
    """Of the shape and at most so many images, evenly spaced: enough to notice other ones."""
    chosen = torch.linspace(0, len(images) - 1, min(most, len(images))).long()
    total = hashlib.blake2b(repr(tuple(images.shape)).encode(), digest_size=16)
    total.update(images[chosen].contiguous().numpy().data)
    return total.hexdigest()


def vector_traces(matrix: Tensor) -> list[float]:
    """A number for each class vector of M (K, d), by which to know it again; not a digest, as machines round apart."""
    waves = torch.arange(matrix.shape[1], dtype=torch.float64).cos()
    return [round(float(number), 4) for number in matrix.double() @ waves]


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
    matrix = labels.matrix
    return torch.from_numpy(centred(matrix, matrix.mean(axis=0)) if config.labels.targets == "centred" else matrix)


def write_problem(run: RunFolder, problem: Problem) -> None:
    """``split.json`` and ``labels.json``: enough to go on, and to see what a name was taken for."""
    split = {**json.loads(problem.split.to_json()), "images": image_digest(problem.dataset.train_images)}
    write_text(run.split_file, json.dumps(split) + "\n")
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
            "vectors": vector_traces(problem.matrix),
            "scale": problem.scale,
        },
    )
