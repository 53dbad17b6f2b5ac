"""A model whose predictions can be computed by hand: from the mean brightness of an image."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor, nn

from semco.config import ModelConfig
from semco.evaluation.model_file import ModelDescription, SavedModel, empty_network, save_model
from semco.models import Network

NAMES = ("dark", "middle", "bright")


def description(channels: int = 3, size: tuple[int, int] = (8, 8)) -> ModelDescription:
    return ModelDescription(
        class_names=NAMES,
        image_size=size,
        channels=channels,  # type: ignore[arg-type]
        mean=(0.5,) * channels,
        std=(0.25,) * channels,
        model=ModelConfig(backbone="wrn-10-1"),
        heads=("one_hot", "semantic"),
        embedding_dim=3,
        scale=4.0,
        groups=(0, 1, 1),
        eps=0.0,
    )


class Mean(nn.Module):
    def forward(self, images: Tensor) -> Tensor:
        return images.mean(dim=(1, 2, 3))[:, None]


class Distances(nn.Module):
    """The distances of the mean from that of a dark, a middle and a bright image, times a factor."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, mean: Tensor) -> Tensor:
        return self.factor * (mean - torch.tensor([[-2.0, 0.0, 2.0]])).abs()


def brightness_model() -> SavedModel:
    """Predicts from the mean of the normalised image, -2 to 2; the semantic head points the other way."""
    network = Network(Mean(), {"one_hot": Distances(-2), "semantic": Distances(2)})  # type: ignore[arg-type]
    return SavedModel(description(), network, torch.eye(3))


def save_untrained(folder: Path, channels: int = 3, size: tuple[int, int] = (8, 8)) -> None:
    """Save a model with the same classes and heads whose network was not trained."""
    about = description(channels, size)
    save_model(folder, SavedModel(about, empty_network(about), torch.eye(3)))
