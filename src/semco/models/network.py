"""Backbone and heads as one network.

Shapes: N images, C channels, H and W pixels, F features, K classes, d embedding size.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from semco.config import ModelConfig
from semco.errors import UserError, unknown
from semco.models.resnet import LAYOUTS, ResNet
from semco.models.wide_resnet import WideResNet
from semco.types import Outputs

# In the order in which they are built; the one-hot head always is.
HEADS = ("one_hot", "semantic", "rotation")
# For lists and for hints; any wrn-DEPTH-WIDTH of depth 6n+4 builds.
KNOWN_BACKBONES = ("wrn-10-1", "wrn-10-2", "wrn-16-2", "wrn-28-2", "wrn-28-8", *LAYOUTS)
# Images up to this side keep their resolution in a ResNet's first layers.
SMALL_SIDE = 64
ROTATIONS = 4


class Network(nn.Module):
    """A backbone shared by one linear one-hot head and, where asked for, a semantic and a rotation head."""

    def __init__(self, backbone: nn.Module, heads: dict[str, nn.Module]) -> None:
        super().__init__()
        self.backbone = backbone
        self.heads = nn.ModuleDict(heads)

    def forward(self, images: Tensor) -> Outputs:
        """Images (N, C, H, W) -> `Outputs`."""
        return self.heads_from(self.backbone(images))

    def heads_from(self, features: Tensor) -> Outputs:
        """Features (N, F), as they are or changed by a method, -> `Outputs`."""
        said = {name: head(features) for name, head in self.heads.items()}
        return Outputs(
            features=features,
            logits=said["one_hot"],
            embedding=said.get("semantic"),
            rotation=said.get("rotation"),
        )


def build_network(
    config: ModelConfig,
    heads: Sequence[str],
    num_classes: int,
    embedding_dim: int,
    in_channels: int,
    image_size: int,
) -> Network:
    """A freshly initialised network, as torch's global seed decides.

    No part's initial weights depend on which heads are built, so that methods compare from the same start.
    """
    assert set(heads) <= set(HEADS), f"unknown heads in {heads}"
    backbone = build_backbone(config, in_channels, image_size)
    features = int(backbone.out_features)  # type: ignore[arg-type]
    makers: dict[str, Callable[[], nn.Module]] = {
        "one_hot": lambda: nn.Linear(features, num_classes),
        "semantic": lambda: _semantic_head(config, features, embedding_dim),
        "rotation": lambda: nn.Linear(features, ROTATIONS),
    }
    seed = int(torch.randint(2**31, ()))
    built = {name: _seeded(makers[name], seed + i) for i, name in enumerate(HEADS) if name in {"one_hot", *heads}}
    return Network(backbone, built)


def build_backbone(config: ModelConfig, in_channels: int, image_size: int) -> nn.Module:
    """The backbone of the configured name; its ``out_features`` is F."""
    name = config.backbone
    if name in LAYOUTS:
        small = config.stem == "small" or (config.stem == "auto" and image_size <= SMALL_SIDE)
        return ResNet(LAYOUTS[name], "small" if small else "large", in_channels, config.norm)
    wide = re.fullmatch(r"wrn-(\d+)-(\d+)", name)
    if wide is None:
        raise unknown("backbone", name, KNOWN_BACKBONES)
    depth, width = int(wide[1]), int(wide[2])
    if width < 1:
        raise UserError(f"the width of backbone {name!r} must be at least 1, for example wrn-{depth}-2.")
    return WideResNet(depth, width, in_channels, config.norm)


def feature_size(config: ModelConfig, in_channels: int, image_size: int) -> int:
    """F, of a backbone that is not built for it."""
    with torch.device("meta"):
        return int(build_backbone(config, in_channels, image_size).out_features)  # type: ignore[arg-type]


def _semantic_head(config: ModelConfig, features: int, embedding_dim: int) -> nn.Module:
    """Linear, or the hidden layer of the authors' released code."""
    if config.semantic_head == "linear":
        return nn.Linear(features, embedding_dim)
    hidden = config.mlp_hidden
    return nn.Sequential(nn.Linear(features, hidden), nn.ReLU(), nn.Linear(hidden, embedding_dim))


def _seeded(make: Callable[[], nn.Module], seed: int) -> nn.Module:
    """A head with Glorot weights and zero biases drawn from a seed of its own."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        head = make()
        for part in head.modules():
            if isinstance(part, nn.Linear):
                nn.init.xavier_normal_(part.weight)
                nn.init.zeros_(part.bias)
    return head
