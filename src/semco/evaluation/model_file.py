"""The ``model/`` folder of a run: weights, label vectors and everything else that prediction needs.

``model.json`` describes the network, ``model.safetensors`` holds its EMA weights and ``labels.safetensors`` the label
vectors M. ``model.json`` is removed first and written last, so that a folder with this file is complete.

Shapes: K classes, d embedding size.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from pydantic import Field, ValidationError
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from semco.config import ModelConfig, Section
from semco.errors import UserError, made_earlier
from semco.evaluation.probabilities import Head, Scorer
from semco.files import atomic_path, cannot_write, read_json_object
from semco.models import Network, Precision, build_network, set_precision
from semco.models.precision import usable_precision
from semco.models.pretrained import PROVENANCE
from semco.run.checkpoint import digest
from semco.run.seal import read_with_digest, write_with_digest

FORMAT = 1
DESCRIPTION, WEIGHTS, LABELS = "model.json", "model.safetensors", "labels.safetensors"


class ModelDescription(Section):
    """What is needed to build the network and to prepare images for it."""

    format: Literal[1] = 1
    class_names: tuple[str, ...]
    image_size: tuple[int, int]  # height, width
    channels: Literal[1, 3]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    model: ModelConfig
    heads: tuple[str, ...]
    embedding_dim: int
    # Scale of the cosines in the softmax of the semantic head; None without such a head.
    scale: float | None = None
    groups: tuple[int, ...]
    eps: float
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


@dataclass(frozen=True)
class SavedModel:
    """A model ready to predict, or to be saved."""

    description: ModelDescription
    network: Network
    label_vectors: Tensor  # (K, d): M

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
    weights = _load_tensors(folder / WEIGHTS, description)
    label_vectors = _load_tensors(folder / LABELS, description).get("embeddings")
    expected = (len(description.class_names), description.embedding_dim)
    if label_vectors is None or tuple(label_vectors.shape) != expected:
        raise UserError(f"{folder / LABELS} does not hold the label vectors that {DESCRIPTION} describes.")
    network = empty_network(description)
    network.backbone.provenance = description.provenance
    try:
        network.load_state_dict(weights)
    except RuntimeError:
        raise UserError(f"{folder / WEIGHTS} does not hold the network that {DESCRIPTION} describes.") from None
    set_precision(network, usable_precision(description.precision, torch.device(device)))
    network.to(device).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    network.eval().requires_grad_(False)
    return SavedModel(description, network, label_vectors.to(device))


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
        raise UserError(f"{file} is damaged at {field!r}: {first['msg']}.") from None


def _load_tensors(file: Path, description: ModelDescription) -> dict[str, Tensor]:
    if file.exists() and not file.is_file():
        raise UserError(f"{file} is not a file; the model folder is incomplete.")
    try:
        tensors = dict(load_file(file))
    except FileNotFoundError:
        raise UserError(f"{file} is missing; the model folder is incomplete.") from None
    except (SafetensorError, OSError) as error:
        raise UserError(f"{file} is damaged or incomplete ({error}).") from None
    if digest(tensors, {}) != description.checksums.get(file.name):
        raise UserError(f"{file} is damaged: its content is not what was saved; resume the run to save it again.")
    return tensors
