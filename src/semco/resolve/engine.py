"""The choice of the engine that computes frozen layers: those of a run, or all layers when a model predicts."""

from __future__ import annotations

from collections.abc import Collection
from typing import get_args

from semco.models.engines import LayerEngine
from semco.models.hf import PREFIX as HF_PREFIX

# Pixels of all images (100 of 224 x 224) from which another engine than torch saves more time than it takes to load
# (docs/lab/speed.md).
PAYING_PIXELS = 5_000_000


def choose_engine(
    backbone: str, device: str, precision: str, pixels: int, installed: Collection[LayerEngine]
) -> tuple[LayerEngine, str]:
    """Return the engine for images of so many pixels in total, and why; the device is a kind, such as cpu."""
    if device != "cpu" or precision != "float32":
        return "torch", "the other engines compute in float32 on CPUs"
    if backbone.startswith(HF_PREFIX):
        return "torch", "the other engines know our own backbones only"
    if pixels < PAYING_PIXELS:
        return "torch", "so few pixels do not pay for loading another engine"
    for name in get_args(LayerEngine):  # the fastest first
        if name in installed and name != "torch":
            return name, f"{name} is installed"
    return "torch", "no other engine is installed"
