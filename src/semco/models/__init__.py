"""Backbones and heads: images in, `Outputs` out."""

from semco.models.network import HEADS, KNOWN_BACKBONES, Network, build_network, feature_size

__all__ = ["HEADS", "KNOWN_BACKBONES", "Network", "build_network", "feature_size"]
