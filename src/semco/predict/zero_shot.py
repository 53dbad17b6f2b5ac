"""Predict other classes with a trained semantic head, also classes without any training image.

Shapes: K classes, d embedding size.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch

from semco.errors import UserError
from semco.evaluation.model_file import SavedModel
from semco.labels import label_source
from semco.labels.embeddings import centred
from semco.run.folder import RunFolder


def with_classes(model: SavedModel, run: Path, names: Sequence[str]) -> SavedModel:
    """Return the model with other classes: their label vectors come from the label source of the run."""
    if "semantic" not in model.description.heads:
        raise UserError(
            "other classes need a model with a semantic head; train one with method devise, semco or semco_plus."
        )
    if len(set(names)) < max(2, len(names)):
        raise UserError(f"give at least two different classes, not {', '.join(names) or 'none'}.")
    config = RunFolder.open(run).config()
    labels = config.labels
    if labels.targets == "one_hot":
        raise UserError("a semantic head trained with labels.targets = 'one_hot' can only predict its own classes.")
    source = label_source(labels)
    found = source.vectors(names)
    size = model.description.embedding_dim
    if found.matrix.shape[1] != size:
        raise UserError(
            f"the label source has vectors of size {found.matrix.shape[1]}, but the model was trained with size {size}."
        )
    others = {"class_names": tuple(names), "groups": tuple(range(len(names))), "thresholds": ()}
    description = model.description.model_copy(update={**others, "heads": ("semantic",), "head": "semantic"})
    matrix = found.matrix
    if config.method.centres_label_vectors:  # subtract the same mean as in training
        matrix = centred(matrix, source.vectors(model.description.class_names).matrix.mean(axis=0))
    return SavedModel(description, model.network, torch.from_numpy(matrix).to(model.label_vectors))
