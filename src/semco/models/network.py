"""Backbone and heads as one network.

Shapes: N images, C channels, H and W pixels, F features, K classes, d embedding size.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor, nn

from semco.config import ModelConfig
from semco.errors import UserError, unknown
from semco.models.backbone import Backbone
from semco.models.cnn13 import CNN13
from semco.models.efficientnet_lite import LITE_LAYOUTS, MEAN, STD, EfficientNetLite
from semco.models.familiarity import Familiarity
from semco.models.hf import PREFIX, build_hf
from semco.models.normalisation import Norm
from semco.models.pretrained import PUBLISHED_WEIGHTS, load_published, load_weights
from semco.models.resnet import LAYOUTS, ResNet
from semco.models.transform import FeatureTransform, TransformShape
from semco.models.wide_resnet import WideResNet
from semco.types import Outputs

# In the order in which they are built; the one-hot head is always built.
HEADS = ("one_hot", "semantic", "rotation")
# For lists and hints; any wrn-DEPTH-WIDTH of depth 6n+4 can be built.
KNOWN_BACKBONES = ("wrn-10-1", "wrn-10-2", "wrn-16-2", "wrn-28-2", "wrn-28-8", "cnn-13", *LAYOUTS, *LITE_LAYOUTS)
# Images up to this side keep their resolution in the first layers of a ResNet.
SMALL_SIDE = 64
ROTATIONS = 4
# Largest depth and width of a wide ResNet: far beyond those of any paper, but networks that can still be built.
MOST_DEPTH, MOST_WIDTH = 1000, 64


class Network(nn.Module):
    """A backbone shared by a linear one-hot head and optionally a semantic and a rotation head."""

    def __init__(
        self,
        backbone: Backbone,
        heads: dict[str, nn.Module],
        transform: FeatureTransform | None = None,
        familiarity: Familiarity | None = None,
    ) -> None:
        super().__init__()
        self.backbone = backbone
        self.transform = transform  # what the heads read in place of the features, if a method has fitted one
        self.familiarity = familiarity  # of saved models with frozen features
        self.heads = nn.ModuleDict(heads)
        # Frozen layers, and norms with frozen statistics: they are in evaluation mode also while the rest is trained.
        self.evaluated_layers: list[nn.Module] = []

    def train(self, mode: bool = True) -> Network:
        super().train(mode)
        for layer in self.evaluated_layers:
            layer.eval()
        return self

    def forward(self, images: Tensor) -> Outputs:
        """Return the outputs for images (N, C, H, W)."""
        if self.transform is None:
            features = self.backbone(images)
            outputs = self.heads_from(features)
        else:
            views = self.backbone.views(images, has_close_up=self.transform.has_close_up)
            features, outputs = views[:, 0], self.heads_from(self.transform(views))
        return outputs if self.familiarity is None else replace(outputs, familiarity=self.familiarity(features))

    def heads_from(self, features: Tensor) -> Outputs:
        """Return the outputs for features (N, F), which a method may have changed."""
        predictions = {name: head(features) for name, head in self.heads.items()}
        return Outputs(
            features=features,
            logits=predictions["one_hot"],
            embedding=predictions.get("semantic"),
            rotation=predictions.get("rotation"),
        )


def build_network(
    config: ModelConfig,
    heads: Sequence[str],
    num_classes: int,
    embedding_dim: int,
    in_channels: int,
    image_size: int,
    *,
    saved: Mapping[str, Any] | None = None,
    transform: TransformShape | None = None,
    has_familiarity: bool = False,
) -> Network:
    """Return a freshly initialised network; torch's global seed decides all weights that are not loaded.

    The initial weights of a part do not depend on which heads are built, so that methods start from the same weights.
    ``saved``: `Backbone.architecture` of a saved model, whose weights follow; none are looked for elsewhere.
    ``transform``: the shape of the transform of a saved model; ``has_familiarity``: whether it knows "none of these".
    """
    assert set(heads) <= set(HEADS), f"unknown heads in {heads}"
    backbone = build_backbone(config, in_channels, image_size, saved=saved)
    features = backbone.out_features if transform is None else transform.axes
    makers: dict[str, Callable[[], nn.Module]] = {
        "one_hot": lambda: nn.Linear(features, num_classes),
        "semantic": lambda: _semantic_head(config, features, embedding_dim),
        "rotation": lambda: nn.Linear(features, ROTATIONS),
    }
    seed = int(torch.randint(2**31, (), device="cpu"))
    built = {name: _seeded(makers[name], seed + i) for i, name in enumerate(HEADS) if name in {"one_hot", *heads}}
    fitted = None if transform is None else FeatureTransform.empty(backbone.out_features, transform)
    known = Familiarity(torch.zeros(num_classes, backbone.out_features)) if has_familiarity else None
    return Network(backbone, built, fitted, known)


def build_backbone(
    config: ModelConfig, in_channels: int, image_size: int, *, saved: Mapping[str, Any] | None = None
) -> Backbone:
    """Return the backbone of the configured name with its weights, or, with ``saved``, with initial weights."""
    if config.backbone.startswith(PREFIX):
        backbone: Backbone = _hf_backbone(config, in_channels, image_size, saved)
    else:
        backbone = _initial_backbone(config, in_channels)
    if saved is None and config.weights is not None:
        load_weights(backbone, config.weights)
    elif saved is None and config.pretrained == "published" and config.backbone in PUBLISHED_WEIGHTS:
        load_published(backbone, config.backbone)
    return backbone


def inspect_backbone(config: ModelConfig, in_channels: int, image_size: int) -> Backbone:
    """Return the backbone on torch's meta device, without memory or weights: sizes, mean, std and layers are right."""
    is_in_files = config.backbone.startswith(PREFIX)  # which may change
    return (_on_meta if is_in_files else _on_meta_once)(config, in_channels, image_size)


def _on_meta(config: ModelConfig, in_channels: int, image_size: int) -> Backbone:
    with torch.device("meta"):
        return build_backbone(config, in_channels, image_size, saved={})


_on_meta_once = lru_cache(maxsize=16)(_on_meta)  # a run asks several times


def feature_size(config: ModelConfig, in_channels: int, image_size: int) -> int:
    """Return F of a backbone without allocating it."""
    return inspect_backbone(config, in_channels, image_size).out_features


def _initial_backbone(config: ModelConfig, in_channels: int) -> Backbone:
    name, norm = config.backbone, Norm(config.norm, config.norm_warmup)
    if name in LAYOUTS:
        return ResNet(LAYOUTS[name], "small" if config.stem == "small" else "large", in_channels, norm)
    if name == "cnn-13":
        return CNN13(in_channels, norm)
    if name in LITE_LAYOUTS:
        return _efficientnet_lite(config, in_channels, norm)
    wide = re.fullmatch(r"wrn-([0-9]{1,9})-([0-9]{1,9})", name)
    if wide is None:
        raise unknown("backbone", name, KNOWN_BACKBONES)
    depth, width = int(wide[1]), int(wide[2])
    if not 1 <= width <= MOST_WIDTH or depth > MOST_DEPTH:
        raise UserError(
            f"backbone {name!r} cannot be built: the width is 1 to {MOST_WIDTH} and the depth at most {MOST_DEPTH}; "
            "use wrn-28-2, for example."
        )
    return WideResNet(depth, width, in_channels, norm)


def _efficientnet_lite(config: ModelConfig, in_channels: int, norm: Norm) -> EfficientNetLite:
    """Return an EfficientNet-Lite; with published weights, its running statistics need no warm-up."""
    layout = LITE_LAYOUTS[config.backbone]
    if config.pretrained == "none":
        return EfficientNetLite(layout, norm)
    if norm.kind == "none":
        raise UserError(
            f"model.norm=none does not work with the published weights of {config.backbone}: use model.norm=batch, "
            "or model.pretrained=none."
        )
    backbone = EfficientNetLite(layout, replace(norm, warmup=False))
    backbone.expect(layout.size, MEAN, STD, in_channels)
    return backbone


def _hf_backbone(config: ModelConfig, in_channels: int, image_size: int, saved: Mapping[str, Any] | None) -> Backbone:
    if config.norm == "none":
        raise UserError(f"model.norm=none does not work with {config.backbone}: use model.norm=batch.")
    name, pretrained = config.backbone.removeprefix(PREFIX), config.pretrained == "published"
    return build_hf(name, in_channels, image_size, pretrained=pretrained, saved=saved or {})


def _semantic_head(config: ModelConfig, features: int, embedding_dim: int) -> nn.Module:
    """Return one linear layer, or two with the hidden layer of the authors' released code."""
    on_resnet50 = config.semantic_head == "mlp_except_resnet50" and config.backbone == "resnet50"
    if config.semantic_head == "linear" or on_resnet50:
        return nn.Linear(features, embedding_dim)
    hidden = config.mlp_hidden
    return nn.Sequential(nn.Linear(features, hidden), nn.ReLU(), nn.Linear(hidden, embedding_dim))


def _seeded(make: Callable[[], nn.Module], seed: int) -> nn.Module:
    """Return a head with Glorot weights and zero biases, drawn from its own seed."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        head = make()
        for part in head.modules():
            if isinstance(part, nn.Linear):
                nn.init.xavier_normal_(part.weight)
                nn.init.zeros_(part.bias)
    return head
