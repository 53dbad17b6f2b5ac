"""What a run learns from: images, which of them are labelled, and the label vectors of the class names."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from semco.config import Config
from semco.data.datasets import Dataset
from semco.data.decode import IMAGE_SUFFIXES
from semco.data.sources import load, source_exists
from semco.data.split import Split, make_split, read_labelled
from semco.errors import UserError, made_earlier
from semco.experiment.loading import vectors_of
from semco.groups.grouping import Groups, group_classes
from semco.labels.embeddings import LabelEmbeddings, centred
from semco.models import inspect_backbone
from semco.models.pretrained import published_name
from semco.run.checkpoint import checkpoints
from semco.run.data_record import changes_of_dataset
from semco.run.folder import RunFolder
from semco.run.identity import check_same_run
from semco.run.seal import VECTORS, DataSeal, broken_seals, digest_of, read_with_digest, write_with_digest
from semco.training.observer import Observer
from semco.types import Task

MOST_NOTES = 20  # remarks on class names that a run prints


@dataclass(frozen=True)
class Problem:
    """Data, split, label vectors and groups of a run."""

    dataset: Dataset
    split: Split
    embeddings: LabelEmbeddings | None  # None: these names have no vectors, and the method does not need them
    groups: Groups
    label_vectors: Tensor  # (K, d), the targets of the semantic head
    num_features: int  # F of the backbone
    # Of each channel, of pixels scaled to [0, 1]: those that loaded weights expect, else those of the data.
    mean: tuple[float, ...]
    std: tuple[float, ...]
    data_seal: DataSeal
    has_attributes: bool = False  # whether the label vectors are class attributes, not made of names
    published: str = ""  # the backbone, if its published weights are loaded

    @property
    def labelled_class_ids(self) -> Tensor:
        """The classes of the labelled images, int64."""
        return self.dataset.train_labels[torch.from_numpy(self.split.labelled)]

    def task(self) -> Task:
        """Return the facts about the problem that a method receives."""
        return Task(
            class_names=self.dataset.class_names,
            label_vectors=self.label_vectors,
            group_ids=torch.from_numpy(self.groups.group_ids),
            labelled_counts=torch.bincount(self.labelled_class_ids, minlength=self.dataset.num_classes),
            pool_size=len(self.split.unlabelled),
            num_features=self.num_features,
            has_attributes=self.has_attributes,
            published=self.published,
        )

    @cached_property
    def seal(self) -> dict[str, Any]:
        """Checksums, by name, of everything that determines the result, except the configuration."""
        split = self.split
        return self.data_seal.values | {
            "split": digest_of([split.labelled.tolist(), split.validation.tolist(), split.pool]),
            "groups": digest_of(self.groups.group_ids.tolist()),
            VECTORS: fingerprints(self.label_vectors),
        }

    def counts(self) -> str:
        """Return the number of images of each kind, as text."""
        dataset, split = self.dataset, self.split
        test = 0 if dataset.test_images is None else len(dataset.test_images)
        return (
            f"{dataset.num_classes} classes; {len(split.labelled):,} labelled images, "
            f"{split.num_without_label:,} unlabelled, {len(split.validation):,} for validation, {test:,} for testing"
        )


def prepare(config: Config, dataset: Dataset, embeddings: LabelEmbeddings | None, observer: Observer) -> Problem:
    """Return the problem of a new run."""
    chosen = read_labelled(config.data, dataset)
    names, seed = dataset.class_names, config.training.seed
    split = make_split(dataset.train_labels, config.data, seed, names, dataset.held_out, chosen)
    return make_problem(config, dataset, split, embeddings, observer)


def make_problem(
    config: Config, dataset: Dataset, split: Split, embeddings: LabelEmbeddings | None, observer: Observer
) -> Problem:
    """Return the problem of a run with this split."""
    _report_skipped(dataset, observer)
    groups = _groups(config, dataset.class_names, embeddings, observer)
    label_vectors = _targets(config, embeddings, dataset.num_classes)
    backbone = inspect_backbone(config.model, dataset.channels, max(dataset.image_size))
    mean, std = backbone.mean or dataset.mean, backbone.std or dataset.std
    features, seal = backbone.out_features, DataSeal(dataset)
    has_attributes = config.labels.source in ("attributes", "matrix")
    known, published = (dataset, split, embeddings, groups, label_vectors), published_name(config.model)
    return Problem(*known, features, mean, std, seal, has_attributes, published)


def _report_skipped(dataset: Dataset, observer: Observer) -> None:
    if dataset.skipped:
        names = ", ".join(dataset.skipped[:3]) + (" ..." if len(dataset.skipped) > 3 else "")
        observer.on_message(f"skipped {len(dataset.skipped)} unreadable image(s): {names}")
    for note in dataset.notes:
        observer.on_message(note)
    others = {ending: count for ending, count in dataset.ignored.items() if ending not in IMAGE_SUFFIXES}
    if others:  # there is a note about images
        kinds = ", ".join(f"{count:,} {ending or 'without an ending'}" for ending, count in others.items())
        observer.on_message(f"ignored files that are not images of a class: {kinds}")


def fingerprints(label_vectors: Tensor) -> list[float]:
    """Return one number per label vector of (K, d) that identifies it; no checksum, as machines round differently."""
    waves = torch.arange(label_vectors.shape[1], dtype=torch.float64).cos()
    return [round(float(number), 4) for number in label_vectors.double() @ waves]


def _groups(config: Config, names: tuple[str, ...], embeddings: LabelEmbeddings | None, observer: Observer) -> Groups:
    """Return the groups of the classes."""
    labels = config.labels
    if embeddings is None:
        return _no_groups(names)
    if labels.source == "attributes":
        observer.on_message(f"the label vectors are the class attributes of {labels.path}")
    groups = group_classes(embeddings, labels.eps, labels.together, labels.apart)
    report_notes((*embeddings.notes, *groups.notes), observer)
    if groups.count < labels.min_groups:
        observer.on_message(f"{groups.count} groups are fewer than labels.min_groups={labels.min_groups}: no grouping")
        return _no_groups(names)
    return groups


def report_notes(notes: Sequence[str], observer: Observer) -> None:
    """Show the remarks on class names; of very many only the first."""
    for note in notes[:MOST_NOTES]:
        observer.on_message(note)
    if len(notes) > MOST_NOTES:
        more = len(notes) - MOST_NOTES
        observer.on_message(f"{more:,} more notes on class names: `semco labels groups` prints all of them")


def _no_groups(names: tuple[str, ...]) -> Groups:
    """Return one group per class."""
    return Groups(names, np.arange(len(names)), 0.0)


def _targets(config: Config, embeddings: LabelEmbeddings | None, num_classes: int) -> Tensor:
    """Return the vectors (K, d) that the semantic head learns to predict."""
    if embeddings is None or config.labels.targets == "one_hot":
        return torch.eye(num_classes)
    matrix = embeddings.matrix
    return torch.from_numpy(centred(matrix, matrix.mean(axis=0)) if config.method.centres_label_vectors else matrix)


def write_problem(run: RunFolder, problem: Problem, config: Config, scale: float | None) -> None:
    """Write ``split.json`` and ``labels.json``: enough to resume, and to see which term a name was matched to.

    The checksums and the configuration in ``split.json`` protect a run that has no checkpoint yet.
    """
    seal = {name: digest for name, digest in problem.seal.items() if name != "split"}
    split = {
        **json.loads(problem.split.to_json()),
        "images": problem.seal["training images"],
        "seal": seal,
        "config": config.model_dump(mode="json"),
    }
    write_with_digest(run.split_file, split)
    write_labels(run, problem, scale)


def write_labels(run: RunFolder, problem: Problem, scale: float | None) -> None:
    """Write ``labels.json``: term, route and group of each class."""
    embeddings = problem.embeddings
    labels = {
        "names": list(problem.dataset.class_names),
        "terms": list(embeddings.terms) if embeddings else [],
        "routes": list(embeddings.routes) if embeddings else [],
        "source": embeddings.source if embeddings else "none",
        "eps": problem.groups.eps,
        "groups": problem.groups.group_ids.tolist(),
        "vectors": fingerprints(problem.label_vectors),
        "scale": scale,
    }
    write_with_digest(run.labels_file, labels)


def read_problem(config: Config, run: RunFolder, observer: Observer) -> Problem:
    """Return the problem of a run that is resumed, with the split of its folder if that was written."""
    if not source_exists(config.data.source):
        raise UserError(
            f"{run.path} was started with {config.data.source!r}, which does not exist: put it back, or write its new "
            f"place as data.source into {run.config_file}."
        )
    dataset = load(config.data, observer.on_loading)
    split = _read_split(run, config, dataset) if run.split_file.exists() else None
    embeddings = vectors_of(config, dataset, observer)(config.labels)
    if split is None:
        problem = prepare(config, dataset, embeddings, observer)
    else:
        problem = make_problem(config, dataset, split, embeddings, observer)
    _check_unchanged(problem, run, config)
    return problem


def _read_split_file(run: RunFolder) -> dict[str, Any]:
    """Return the content of ``split.json``, as `write_problem` wrote it."""
    values = read_with_digest(run.split_file)
    if not {"pool", "images", "seal", "config"} <= values.keys():
        raise made_earlier(run.path)
    return values


def _read_split(run: RunFolder, config: Config, dataset: Dataset) -> Split:
    try:
        return Split.from_json(json.dumps(_read_split_file(run)), dataset.train_labels)
    except UserError as error:
        raise _explained(error, run, config, dataset) from None


def _check_unchanged(problem: Problem, run: RunFolder, config: Config) -> None:
    """Refuse to resume a run with another configuration, other images or label vectors than it was started with."""
    sealed: dict[str, Any] = {}
    if run.split_file.exists():
        saved = _read_split_file(run)
        check_same_run(saved["config"], config, run.config_file)
        sealed = {"training images": saved["images"], **saved["seal"]}
    elif run.labels_file.exists() and not checkpoints(run.checkpoints):  # which would have their own checksums
        raise UserError(f"{run.split_file} is missing: restore it, or start a new run.")
    if run.labels_file.exists():
        read_with_digest(run.labels_file)
    broken = broken_seals(sealed, problem.seal)
    data = [name for name in broken if name not in ("groups", VECTORS)]
    if data:
        error = UserError(
            f"the {data[0]} are not those that {run.path} was started with: restore the data, or start a new run."
        )
        raise _explained(error, run, config, problem.dataset)
    if broken:
        raise UserError(
            f"the label vectors are not those that {run.path} was started with: restore labels.path or the store, "
            "or start a new run."
        )


def _explained(error: UserError, run: RunFolder, config: Config, dataset: Dataset) -> UserError:
    """Return the error about changed data with the files that have changed, if these are known."""
    changes = changes_of_dataset(run.path, config.data, dataset)
    if not changes:
        return error
    return UserError(
        f"the data have changed since {run.path} was started: {changes.describe()}; restore them, or start a new run."
    )
