"""CNN-13 against numbers counted by hand."""

from __future__ import annotations

import torch

from semco.config import ModelConfig
from semco.models import build_backbone


def test_layers_and_parameters_by_hand() -> None:
    network = build_backbone(ModelConfig(backbone="cnn-13"), 3, 32)
    first = 3 * 128 * 9 + 2 * 128 * 128 * 9
    second = 128 * 256 * 9 + 2 * 256 * 256 * 9
    third = 256 * 512 * 9 + 512 * 256 + 256 * 128
    norms = 2 * (3 * 128 + 3 * 256 + 512 + 256 + 128)
    assert sum(parameter.numel() for parameter in network.parameters()) == first + second + third + norms
    images = torch.rand(2, 3, 32, 32)
    maps = network.eval().layers()[1](network.layers()[0](images))
    assert maps.shape == (2, 256, 8, 8)  # two poolings
    assert network(images).shape == (2, network.out_features) == (2, 128)
