"""A backbone of two convolutions where the network does not matter: ``model.backbone: tiny``.

Runs with it take a quarter less time than with the smallest wide ResNet, with which tests/test_golden.py trains,
crashes and resumes a run of every method.
"""

from __future__ import annotations

from functools import wraps

from torch import nn

from semco.config import ModelConfig
from semco.models import Backbone, network
from semco.models.normalisation import Norm, init_convolutions, norm_layer

NAME = "tiny"


class TinyBackbone(Backbone):
    """(N, C, H, W) -> (N, 64): the mean activations of each quarter of the image."""

    out_features = 64
    first_top_layer = 2

    def __init__(self, in_channels: int, norm: Norm) -> None:
        super().__init__()
        self.stem = nn.Conv2d(in_channels, 16, 3, stride=2, padding=1, bias=False)
        self.norm = norm_layer(norm, 16, 0.001)
        self.top = nn.Conv2d(16, 16, 3, stride=2, padding=1, bias=False)
        self.pool = nn.Sequential(nn.LeakyReLU(0.1), nn.AdaptiveAvgPool2d(2), nn.Flatten())
        init_convolutions(self)

    def layers(self) -> list[nn.Module]:
        return [self.stem, self.norm, self.top, self.pool]


def add_tiny_backbone() -> None:
    """Let this process build the backbone by its name, as if it were one of the package."""
    original = network._initial_backbone

    @wraps(original)
    def initial_backbone(config: ModelConfig, in_channels: int) -> Backbone:
        if config.backbone == NAME:
            return TinyBackbone(in_channels, Norm(config.norm, config.norm_warmup))
        return original(config, in_channels)

    network._initial_backbone = initial_backbone
