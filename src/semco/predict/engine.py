"""What runs a model: pixels in, class probabilities of every head out.

The backbone of a run is computed by OpenVINO, ONNX Runtime or torch, its heads by torch. ONNX Runtime alone runs an
exported file (`semco.predict.onnx`).

Shapes: N images, C channels, H and W pixels, K classes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from semco.data.inputs import images_at_a_time
from semco.data.normalise import normalise_images
from semco.distributed.processes import Processes
from semco.errors import UserError
from semco.evaluation.engine import EngineName, with_engine
from semco.evaluation.model_check import ClassNames, ImageSide
from semco.evaluation.model_file import ModelDescription, SavedModel, load_model
from semco.evaluation.probabilities import Head, finite_array
from semco.evaluation.results import group_names
from semco.evaluation.thresholds import Thresholds
from semco.files import exists, no_such
from semco.predict.zero_shot import with_classes
from semco.run.folder import RunFolder
from semco.training.allocator import with_reused_memory
from semco.training.execution import choose_device

# Images per batch, fewer if they are large.
BATCH = 256


@dataclass(frozen=True)
class About:
    """The description of a model: its classes, the images that it reads, and its heads."""

    class_names: ClassNames
    group_ids: tuple[int, ...]
    image_size: tuple[ImageSide, ImageSide]  # height, width
    channels: Literal[1, 3]
    head: Head
    """The head that predicts."""
    heads: tuple[Head, ...]
    """The heads that the model has: ``one_hot``, and ``semantic`` if it was trained with one."""
    thresholds: Thresholds = ()
    """A photo with a lower familiarity shows none of the classes (`choose_threshold`)."""

    @cached_property
    def groups(self) -> tuple[str, ...]:
        """The group of each class, made of the names of its classes: ``shirt + coat``."""
        names = group_names(self.class_names, self.group_ids)
        return tuple(names[group_id] for group_id in self.group_ids)

    @property
    def batch_size(self) -> int:
        """Number of images that are predicted at a time."""
        return images_at_a_time(BATCH, (self.channels, *self.image_size))


@dataclass(frozen=True)
class Scores:
    """Class probabilities of a batch, each (N, K)."""

    chosen: NDArray[np.float32]
    """Of the head that predicts."""
    by_head: Mapping[str, NDArray[np.float32]]
    """Of each head that the model has."""
    familiarity: NDArray[np.float32] | None = None
    """How similar each photo is to those of the classes (N,); None if the model has no familiarity."""

    def row(self, i: int) -> Scores:
        """Return the scores of one image as a batch."""
        one = slice(i, i + 1)
        familiarity = None if self.familiarity is None else self.familiarity[one]
        return Scores(self.chosen[one], {head: each[one] for head, each in self.by_head.items()}, familiarity)


class Engine(Protocol):
    """Runs one model."""

    @property
    def name(self) -> str: ...
    @property
    def about(self) -> About: ...

    def stream(self, batches: Iterable[Tensor]) -> Iterator[Scores]:
        """Yield the scores of each batch of images (N, C, H, W) uint8 that have the size of the model."""
        ...


class TorchEngine:
    """Runs a saved model with torch, except for its backbone if another engine computes that."""

    def __init__(self, model: SavedModel, head: Head | None = None, device: torch.device | str = "cpu") -> None:
        self._network, self.device, self.name = model.network.eval(), torch.device(device), model.engine
        self.about = about_of(model.description, head)
        described = model.description
        self._mean = torch.tensor(described.mean, device=self.device)
        self._std = torch.tensor(described.std, device=self.device)
        self._scorers = {each: model.scorer(each) for each in dict.fromkeys((*self.about.heads, self.about.head))}

    def stream(self, batches: Iterable[Tensor]) -> Iterator[Scores]:
        yield from with_reused_memory(map(self._score, batches), self.device)

    @torch.inference_mode()
    def _score(self, images: Tensor) -> Scores:
        outputs = self._network(normalise_images(images.to(self.device), self._mean, self._std))
        found = {name: finite_array(scorer(outputs).cpu()) for name, scorer in self._scorers.items()}
        familiarity = None if outputs.familiarity is None else finite_array(outputs.familiarity.cpu())
        return Scores(found[self.about.head], {head: found[head] for head in self.about.heads}, familiarity)


def about_of(description: ModelDescription, head: Head | None = None) -> About:
    """Return the description in a model folder; the model predicts with ``head``, by default with its own."""
    chosen: Head = head or description.head
    has_semantic = "semantic" in description.heads and description.scale is not None
    if chosen != "one_hot" and not has_semantic:
        raise UserError(f"head {chosen!r} needs a model with a semantic head; use head 'one_hot'.")
    available: dict[Head, bool] = {"one_hot": "one_hot" in description.heads, "semantic": has_semantic}
    return About(
        class_names=description.class_names,
        group_ids=description.groups,
        image_size=description.image_size,
        channels=description.channels,
        head=chosen,
        heads=tuple(name for name, is_there in available.items() if is_there),
        thresholds=description.thresholds,
    )


def torch_engine(
    folder: Path,
    head: Head | None = None,
    device: str = "auto",
    classes: Sequence[str] | None = None,
    engine: EngineName = "auto",
) -> TorchEngine:
    """Return the engine of a run folder or a model folder.

    With ``classes``, the semantic head chooses among these class names, which need not be those of the training.
    """
    chosen_device = choose_device(device, Processes.from_environment())
    model_folder = find_model_folder(folder)
    model = load_model(model_folder, chosen_device)
    if classes is not None:
        if head not in (None, "semantic"):
            raise UserError(f"only the semantic head can predict other classes, not head {head!r}.")
        model = with_classes(model, model_folder.parent, classes)
    return TorchEngine(with_engine(model, chosen_device, engine), head, chosen_device)


def find_model_folder(folder: Path) -> Path:
    """Return the model folder of a run; a model folder is returned itself."""
    if not exists(folder) or not folder.is_dir():
        raise no_such("run folder", folder)
    if (folder / "model.json").is_file():
        return folder
    model = folder / "model"
    return model if model.is_dir() else RunFolder.open(folder).model
