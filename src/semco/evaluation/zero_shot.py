"""Other classes for a trained semantic head: names alone are enough, no image of them need have been seen.

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
    """The model with its semantic head comparing against the vectors of ``names``, from the label source of the run."""
    if "semantic" not in model.description.heads:
        raise UserError(
            "other classes need a model with a semantic head; train with method devise, semco or semco_plus."
        )
    if len(set(names)) < max(2, len(names)):
        raise UserError(f"give at least two classes, each once, not {', '.join(names) or 'none'}.")
    config = RunFolder.open(run).config()
    labels = config.labels
    if labels.targets == "one_hot":
        raise UserError("a semantic head trained with labels.targets 'one_hot' knows its own classes only.")
    source = label_source(labels)
    found = source.vectors(names)
    size = model.description.embedding_dim
    if found.matrix.shape[1] != size:
        raise UserError(f"the label source now gives vectors of {found.matrix.shape[1]} numbers, the model has {size}.")
    description = model.description.model_copy(
        update={"class_names": tuple(names), "groups": tuple(range(len(names))), "head": "semantic"}
    )
    matrix = found.matrix
    if config.method.centres_label_vectors:  # with the mean that was subtracted in training
        matrix = centred(matrix, source.vectors(model.description.class_names).matrix.mean(axis=0))
    return SavedModel(description, model.network, torch.from_numpy(matrix).to(model.label_vectors))
