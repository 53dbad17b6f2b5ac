"""The ``model/`` folder of a run: weights, label vectors and all else that prediction needs.

``model.json`` says what the network is, ``model.safetensors`` holds its averaged weights and
``labels.safetensors`` the label vectors M. ``model.json`` is removed first and written last: a folder that
has it is whole.

Shapes: K classes, d embedding size.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch
from pydantic import ValidationError
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from semco.config import ModelConfig, Section
from semco.errors import UserError
from semco.evaluation.probabilities import Head, Scorer
from semco.files import atomic_path, read_json, write_json
from semco.models import Network, build_network

FORMAT = 1
DESCRIPTION, WEIGHTS, LABELS = "model.json", "model.safetensors", "labels.safetensors"


class ModelDescription(Section):
    """What is needed to build the network again and to prepare images for it."""

    format: Literal[1] = 1
    class_names: tuple[str, ...]
    image_size: tuple[int, int]  # height, width
    channels: Literal[1, 3]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    model: ModelConfig
    heads: tuple[str, ...]
    embedding_dim: int
    # Scale of the cosines in the semantic head's softmax; None where there is no such head.
    scale: float | None = None
    groups: tuple[int, ...]
    eps: float
    # The head that answers when none is asked for.
    head: Head = "one_hot"


@dataclass(frozen=True)
class SavedModel:
    """A model ready to predict, or to be saved."""

    description: ModelDescription
    network: Network
    label_vectors: Tensor  # (K, d): M

    def scorer(self, head: Head | None = None) -> Scorer:
        """How its outputs become probabilities, by ``head`` or by the model's default head."""
        return Scorer(head or self.description.head, self.label_vectors, self.description.scale)


def save_model(folder: Path, model: SavedModel) -> None:
    """Write the folder so that a kill at any instant leaves either a whole model or none."""
    (folder / DESCRIPTION).unlink(missing_ok=True)
    _save_tensors(folder / WEIGHTS, model.network.state_dict())
    _save_tensors(folder / LABELS, {"embeddings": model.label_vectors})
    write_json(folder / DESCRIPTION, model.description.model_dump(mode="json"))


def _save_tensors(file: Path, tensors: dict[str, Tensor]) -> None:
    with atomic_path(file) as temporary:
        # A copy of each: safetensors refuses tensors that share memory or are not contiguous (channels-last).
        save_file({k: t.detach().cpu().contiguous().clone() for k, t in tensors.items()}, temporary)


def load_model(folder: Path, device: torch.device | str = "cpu") -> SavedModel:
    """The model in evaluation mode; what is missing, damaged or of another version is named."""
    description = _description(folder / DESCRIPTION)
    weights = _load_tensors(folder / WEIGHTS)
    labels = _load_tensors(folder / LABELS)
    expected = (len(description.class_names), description.embedding_dim)
    embeddings = labels.get("embeddings")
    if embeddings is None or tuple(embeddings.shape) != expected:
        raise UserError(f"{folder / LABELS} does not hold the label vectors that {DESCRIPTION} describes.")
    network = empty_network(description)
    try:
        network.load_state_dict(weights)
    except RuntimeError:
        raise UserError(f"{folder / WEIGHTS} does not hold the network that {DESCRIPTION} describes.") from None
    network.to(device).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    network.eval().requires_grad_(False)
    return SavedModel(description, network, embeddings.to(device))


def empty_network(description: ModelDescription) -> Network:
    """The network with weights that are to be loaded; torch's global generator is left as it was."""
    with torch.random.fork_rng(devices=[]):
        return build_network(
            description.model,
            description.heads,
            len(description.class_names),
            description.embedding_dim,
            description.channels,
            max(description.image_size),
        )


def _description(file: Path) -> ModelDescription:
    if not file.is_file():
        raise UserError(
            f"{file.parent} holds no finished model ({file.name} is missing); "
            f"finish the run with 'semco resume {file.parent.parent}'."
        )
    values = read_json(file)
    version = values.get("format") if isinstance(values, dict) else None
    if version != FORMAT:
        raise UserError(f"{file} has format {version}; this version of semco reads format {FORMAT}.")
    try:
        return ModelDescription.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"])
        raise UserError(f"{file} is damaged at {field!r}: {first['msg']}.") from None


def _load_tensors(file: Path) -> dict[str, Tensor]:
    try:
        return dict(load_file(file))
    except FileNotFoundError:
        raise UserError(f"{file} is missing; the model folder is not complete.") from None
    except SafetensorError as error:
        raise UserError(f"{file} is damaged or cut short ({error}).") from None
