"""Backbones and heads: images in, `Outputs` out."""

from semco.models.backbone import Backbone
from semco.models.network import (
    HEADS,
    KNOWN_BACKBONES,
    Network,
    build_backbone,
    build_network,
    feature_size,
    inspect_backbone,
)

__all__ = [
    "HEADS",
    "KNOWN_BACKBONES",
    "Backbone",
    "Network",
    "build_backbone",
    "build_network",
    "feature_size",
    "inspect_backbone",
]
