"""The ``model/`` folder of a run: weights, label vectors and everything else that prediction needs.

``model.json`` describes the network, ``model.safetensors`` holds its EMA weights and ``labels.safetensors`` the label
vectors M. ``model.json`` is removed first and written last, so that a folder with this file is complete.

Shapes: K classes, d embedding size.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self

import torch
from pydantic import Field, PositiveFloat, ValidationError, model_validator
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from semco.config import ModelConfig, Section
from semco.errors import UserError, brief, made_earlier
from semco.evaluation.model_check import (
    ClassNames,
    ImageSide,
    Size,
    check_network,
    check_numbers,
    class_problem,
    stored_shapes,
)
from semco.evaluation.probabilities import Head, Scorer
from semco.evaluation.thresholds import Thresholds
from semco.files import atomic_path, cannot_write, read_json_object
from semco.models import Network, Precision, TransformShape, build_network, set_precision
from semco.models.backbone import usable_precision
from semco.models.pretrained import PROVENANCE
from semco.run.checkpoint import digest
from semco.run.seal import read_with_digest, write_with_digest

FORMAT = 1
DESCRIPTION, WEIGHTS, LABELS = "model.json", "model.safetensors", "labels.safetensors"


class ModelDescription(Section):
    """What is needed to build the network and to prepare images for it."""

    format: Literal[1] = 1
    class_names: ClassNames
    image_size: tuple[ImageSide, ImageSide]  # height, width
    channels: Literal[1, 3]
    mean: tuple[float, ...]
    std: tuple[PositiveFloat, ...]
    model: ModelConfig
    heads: tuple[Literal["one_hot", "semantic", "rotation"], ...]
    embedding_dim: Size
    # Scale of the cosines in the softmax of the semantic head; None without such a head.
    scale: PositiveFloat | None = None
    groups: tuple[int, ...]
    eps: float
    # Of the features that the heads read in place of those of the backbone, if a method has fitted a transform.
    transform: TransformShape | None = None
    # Below which familiarity a photo shows none of the classes; empty: the network has no familiarity.
    thresholds: Thresholds = ()
    # The head that predicts by default.
    head: Head = "one_hot"
    # The precision in which the backbone computed in training.
    precision: Precision = "float32"
    # What the backbone is built from besides the configuration, and where its initial weights came from (`Backbone`).
    architecture: dict[str, Any] = Field(default_factory=dict)
    provenance: str = ""
    # Checksums of what the model was trained on (`semco.run.seal`).
    seal: dict[str, Any] = Field(default_factory=dict)
    # Checksums of the weights and of the label vectors, by file name.
    checksums: dict[str, str] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _check(self) -> Self:
        problem = class_problem(self.class_names, self.groups)
        if problem is not None:
            raise ValueError(problem)
        if not len(self.mean) == len(self.std) == self.channels:
            raise ValueError(f"mean and std have {len(self.mean)} and {len(self.std)} values, channels={self.channels}")
        check_numbers(self.architecture)
        return self


@dataclass(frozen=True)
class SavedModel:
    """A model ready to predict, or to be saved."""

    description: ModelDescription
    network: Network
    label_vectors: Tensor  # (K, d): M
    engine: str = "torch"
    """What computes the backbone (`semco.evaluation.engine`)."""

    def scorer(self, head: Head | None = None) -> Scorer:
        """Return the scorer of ``head``, or of the model's default head."""
        return Scorer(head or self.description.head, self.label_vectors, self.description.scale)


def save_model(folder: Path, model: SavedModel) -> None:
    """Write the folder; if the process is killed meanwhile, the folder holds no model rather than a damaged one."""
    try:
        (folder / DESCRIPTION).unlink(missing_ok=True)
    except OSError as error:  # a folder of this name, for example
        raise cannot_write(folder / DESCRIPTION, error) from None
    backbone = model.network.backbone
    checksums = {
        WEIGHTS: _save_tensors(folder / WEIGHTS, model.network.state_dict(), {PROVENANCE: backbone.provenance}),
        LABELS: _save_tensors(folder / LABELS, {"embeddings": model.label_vectors}),
    }
    origin = {"architecture": dict(backbone.architecture), PROVENANCE: backbone.provenance, "checksums": checksums}
    write_with_digest(folder / DESCRIPTION, model.description.model_dump(mode="json") | origin)


def _save_tensors(file: Path, tensors: dict[str, Tensor], metadata: dict[str, str] | None = None) -> str:
    """Write the tensors and return their checksum."""
    # Copies, because safetensors refuses tensors that share memory or are not contiguous (channels-last).
    stored = {k: t.detach().cpu().contiguous().clone() for k, t in tensors.items()}
    with atomic_path(file) as temporary:
        save_file(stored, temporary, metadata)
    return digest(stored, {})


def load_model(folder: Path, device: torch.device | str = "cpu") -> SavedModel:
    """Return the model in evaluation mode; an error names a file that is missing, damaged or of another version."""
    description = _read_description(folder / DESCRIPTION)
    _check_files(folder, description)
    weights, label_vectors = (_load_tensors(folder / name, description) for name in (WEIGHTS, LABELS))
    network = empty_network(description)
    network.backbone.provenance = description.provenance
    network.load_state_dict(weights)
    set_precision(network, usable_precision(description.precision, torch.device(device)))
    network.to(device).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    network.eval().requires_grad_(False)
    return SavedModel(description, network, label_vectors["embeddings"].to(device))


def _check_files(folder: Path, description: ModelDescription) -> None:
    """Compare what is described with what the files announce, before anything is built or read."""
    num_classes = len(description.class_names)
    labels = {"embeddings": ("F32", (num_classes, description.embedding_dim))}
    if stored_shapes(folder / LABELS) != labels:
        raise UserError(f"{folder / LABELS} does not hold the label vectors that {DESCRIPTION} describes.")
    stored = stored_shapes(folder / WEIGHTS)
    shape = (description.channels, *description.image_size)
    try:
        check_network(lambda: empty_network(description), stored, shape, num_classes)
    except UserError:
        raise
    except Exception as error:  # a description can ask for anything, and libraries raise anything
        reason = brief(str(error), 200)
        raise UserError(
            f"{folder / WEIGHTS} does not hold the network that {DESCRIPTION} describes ({reason})."
        ) from None


def empty_network(description: ModelDescription) -> Network:
    """Return the network with initial weights, to be overwritten; torch's global random state does not change."""
    with torch.random.fork_rng(devices=[]):
        return build_network(
            description.model,
            description.heads,
            len(description.class_names),
            description.embedding_dim,
            description.channels,
            max(description.image_size),
            saved=description.architecture,
            transform=description.transform,
            has_familiarity=bool(description.thresholds),
        )


def _read_description(file: Path) -> ModelDescription:
    if not file.is_file():
        raise UserError(
            f"{file.parent} holds no finished model ({file.name} is missing); "
            f"finish the run with 'semco resume {file.parent.parent}'."
        )
    values = read_json_object(file)
    if values.get("format") != FORMAT:
        raise made_earlier(file)
    try:
        return ModelDescription.model_validate(read_with_digest(file))
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"])
        where = f" at {field!r}" if field else ""
        reason = first["msg"].removeprefix("Value error, ")  # pydantic's words for what a validator says
        raise UserError(f"{file} is damaged{where}: {reason}.") from None


def _load_tensors(file: Path, description: ModelDescription) -> dict[str, Tensor]:
    try:
        tensors = dict(load_file(file))
    except (SafetensorError, OSError) as error:
        raise UserError(f"{file} is damaged or incomplete ({error}).") from None
    if digest(tensors, {}) != description.checksums.get(file.name):
        raise UserError(f"{file} is damaged: its content is not what was saved; resume the run to save it again.")
    return tensors
