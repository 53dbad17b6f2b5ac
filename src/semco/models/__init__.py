"""Backbones and heads: images in, `Outputs` out."""

from semco.models.backbone import Backbone, Precision, set_precision
from semco.models.fitted import LinearHead
from semco.models.network import (
    HEADS,
    KNOWN_BACKBONES,
    SMALL_SIDE,
    Network,
    build_backbone,
    build_network,
    feature_size,
    inspect_backbone,
)
from semco.models.pretrained import has_weights
from semco.models.transform import FeatureTransform, TransformShape

__all__ = [
    "HEADS",
    "KNOWN_BACKBONES",
    "SMALL_SIDE",
    "Backbone",
    "FeatureTransform",
    "LinearHead",
    "Network",
    "Precision",
    "TransformShape",
    "build_backbone",
    "build_network",
    "feature_size",
    "has_weights",
    "inspect_backbone",
    "set_precision",
]
