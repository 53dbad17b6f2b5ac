"""Saved models whose backbone is computed by OpenVINO, ONNX Runtime or torch, with the same features to 1e-4."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, Literal

import torch

from semco.evaluation.model_file import SavedModel
from semco.models import Network
from semco.models.engines import compile_layers, installed_engines
from semco.resolve.engine import choose_engine

EngineName = Literal["auto", "openvino", "onnx", "torch"]
# Photos for which the engine is chosen; how many will be predicted is not known when a model is loaded.
EXPECTED_PHOTOS = 1000


def with_engine(model: SavedModel, device: torch.device | str = "cpu", engine: EngineName = "auto") -> SavedModel:
    """Return a model that predicts the same, but cannot be trained or saved; its engine is in ``model.engine``."""
    about = model.description
    if engine == "auto":
        pixels = EXPECTED_PHOTOS * math.prod(about.image_size)
        kind = torch.device(device).type
        engine, _ = choose_engine(about.model.backbone, kind, about.precision, pixels, installed_engines())
    layers: Any = compile_layers(model.network.backbone, (about.channels, *about.image_size), engine)
    whole = model.network
    network = Network(layers, dict(whole.heads), whole.transform, whole.familiarity)
    return replace(model, network=network.eval(), engine=engine)
