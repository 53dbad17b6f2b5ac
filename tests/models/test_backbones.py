"""What every backbone promises: its layers are its forward pass, and its sizes are what it says."""

from __future__ import annotations

import copy
from functools import cache
from pathlib import Path

import pytest
import torch
from torch import nn

from semco.config import ModelConfig
from semco.models import KNOWN_BACKBONES, Backbone, build_backbone, inspect_backbone
from semco.models.backbone import close_up

every_backbone = pytest.mark.parametrize("name", [name for name in KNOWN_BACKBONES if name != "wrn-28-8"])


def build(name: str, channels: int = 3) -> Backbone:
    return copy.deepcopy(_built(name, channels))


@cache  # a copy takes a tenth of the time
def _built(name: str, channels: int) -> Backbone:
    torch.manual_seed(0)
    return build_backbone(ModelConfig(backbone=name, pretrained="none"), channels, 32)


def without_weights(name: str) -> Backbone:
    return inspect_backbone(ModelConfig(backbone=name, pretrained="none"), 3, 32)


@every_backbone
@pytest.mark.parametrize("channels", [1, 3])
def test_layers_compose_to_forward(name: str, channels: int) -> None:
    backbone = build(name, channels=channels).eval()
    images = torch.randn(2, channels, 32, 32)
    with torch.no_grad():
        values = images
        for layer in backbone.layers():
            values = layer(values)
        assert torch.equal(values, backbone(images))
    assert values.shape == (2, backbone.out_features)


@every_backbone
def test_layers_hold_every_parameter_once(name: str) -> None:
    backbone = without_weights(name)
    in_layers = [id(p) for layer in backbone.layers() for p in layer.parameters()]
    assert sorted(in_layers) == sorted(id(p) for p in backbone.parameters())


@every_backbone
def test_the_top_is_a_proper_part(name: str) -> None:
    backbone = without_weights(name)
    layers = backbone.layers()
    assert 0 < backbone.first_top_layer < len(layers)
    assert any(True for layer in layers[backbone.first_top_layer :] for _ in layer.parameters())


@every_backbone
def test_a_layer_does_not_change_its_input_at_the_first_top_layer(name: str) -> None:
    """What comes before may be kept and used again."""
    backbone = build(name).train()
    layers = backbone.layers()
    values = torch.randn(2, 3, 32, 32)
    with torch.no_grad():
        for layer in layers[: backbone.first_top_layer]:
            values = layer(values)
        before = values.clone()
        for layer in layers[backbone.first_top_layer :]:
            values = layer(values)
    maps = before.clone()
    with torch.no_grad():
        nn.Sequential(*layers[backbone.first_top_layer :])(maps)
    assert torch.equal(maps, before)


@every_backbone
def test_state_round_trip(name: str) -> None:
    one, other = build(name).eval(), build(name).eval()
    images = torch.randn(1, 3, 32, 32)
    with torch.no_grad():
        for value in other.state_dict().values():
            value.zero_()
        assert not torch.equal(one(images), other(images))
        other.load_state_dict(one.state_dict())
        assert torch.equal(one(images), other(images))


@every_backbone
def test_inspection_needs_no_weights(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("semco.models.pretrained.PublishedWeights.path", lambda _: None)
    seen = inspect_backbone(ModelConfig(backbone=name), 3, 32)
    assert all(p.is_meta for p in seen.parameters())
    assert seen.out_features == _built(name, 3).out_features


@pytest.mark.parametrize(
    ("name", "keys"),
    [
        ("wrn-10-1", ("stem.weight", "stages.0.norm1.weight", "stages.2.shortcut.weight", "norm.running_var")),
        ("resnet18", ("stem.0.weight", "stages.0.convs.0.weight", "stages.7.norms.1.num_batches_tracked")),
    ],
)
def test_names_of_weights_do_not_change(name: str, keys: tuple[str, ...]) -> None:
    """Saved models and checkpoints hold the weights under these names."""
    state = build(name).state_dict()
    assert {key.split(".")[0] for key in state} == {key.split(".")[0] for key in keys}
    assert set(keys) <= set(state)


def test_weights_of_ones_own_win_over_published_ones(tmp_path: Path) -> None:
    from safetensors.torch import save_file

    own = build("efficientnet-lite0")
    save_file(own.state_dict(), tmp_path / "own.safetensors")
    config = ModelConfig(backbone="efficientnet-lite0", weights=tmp_path / "own.safetensors")
    loaded = build_backbone(config, 3, 32)
    assert torch.equal(loaded.state_dict()["head.conv.weight"], own.state_dict()["head.conv.weight"])


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


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_close_ups_have_the_layout_and_the_values_of_torchs_resize(layout: torch.memory_format) -> None:
    images = torch.rand(2, 3, 26, 39).contiguous(memory_format=layout)
    enlarged = close_up(images)
    assert enlarged.is_contiguous(memory_format=layout)
    centre = images[:, :, 3:23, 4:34]  # 26 / 1.3 rows and 39 / 1.3 columns
    expected = nn.functional.interpolate(centre, size=(26, 39), mode="bicubic", align_corners=False).flip(-1)
    assert torch.equal(enlarged, expected)
