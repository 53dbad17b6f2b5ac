"""What a run learns from: images, which of them are labelled, and the label vectors of the class names.

Shapes: K classes, d embedding size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from semco.config import Config
from semco.data.datasets import Dataset
from semco.data.split import Split, make_split
from semco.data.split_file import read_labelled
from semco.groups.grouping import Groups, group_classes
from semco.labels.embeddings import LabelEmbeddings, centred
from semco.models import inspect_backbone
from semco.run.seal import VECTORS, DataSeal, digest_of
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
    return Problem(dataset, split, embeddings, groups, label_vectors, features, mean, std, seal, has_attributes)


def _report_skipped(dataset: Dataset, observer: Observer) -> None:
    if dataset.skipped:
        names = ", ".join(dataset.skipped[:3]) + (" ..." if len(dataset.skipped) > 3 else "")
        observer.on_message(f"skipped {len(dataset.skipped)} unreadable image(s): {names}")
    for note in dataset.notes:
        observer.on_message(note)
    if dataset.ignored:
        kinds = ", ".join(f"{count:,} {ending or 'without an ending'}" for ending, count in dataset.ignored.items())
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
