"""Layers that are not trained: every engine computes what torch does, or says why it cannot."""

from __future__ import annotations

import copy
import sys

import pytest
import torch
from torch import Tensor, nn

from semco.config import ModelConfig
from semco.errors import UserError
from semco.models import Backbone, build_backbone
from semco.models.engines import AT_A_TIME, compile_layers, installed_engines
from semco.models.tuning import Layers

ENGINES = ("openvino", "onnx", "torch")
every_engine = pytest.mark.parametrize("engine", ENGINES)


def make_backbone(name: str, channels: int = 3) -> Backbone:
    """A backbone whose weights and statistics are random, so that norms change what they are given."""
    torch.manual_seed(0)
    config = ModelConfig(backbone=name, pretrained="none", stem="large")
    backbone = build_backbone(config, channels, 32)
    for key, value in backbone.state_dict().items():
        if "norm" in key and value.dtype == torch.float32:
            value.copy_(0.5 + torch.rand(value.shape))
    return backbone.eval().requires_grad_(False)


def make_images(count: int = 2 * AT_A_TIME + 1, channels: int = 3, side: int = 32) -> Tensor:
    return torch.randn(count, channels, side, side, generator=torch.Generator().manual_seed(1))


@torch.inference_mode()
def assert_same(layers: nn.Module, engine: str, images: Tensor) -> None:
    expected = layers(images)
    found = compile_layers(layers, images.shape[1:], engine)(images)  # type: ignore[arg-type]
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-4 * max(1.0, float(expected.abs().max())))
    assert expected.std() > 1e-2, "a constant would be the same in all engines"


def test_all_engines_are_installed_for_these_tests() -> None:
    assert installed_engines() == set(ENGINES)


@every_engine
@pytest.mark.parametrize("name", ["tiny", "wrn-10-1", "cnn-13", "resnet18", "resnet50", "efficientnet-lite0"])
def test_every_engine_computes_the_features_of_every_backbone(name: str, engine: str) -> None:
    assert_same(make_backbone(name), engine, make_images())


@every_engine
def test_memory_in_the_order_of_training_makes_no_difference(engine: str) -> None:
    layers = make_backbone("tiny").to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    assert_same(layers, engine, make_images().contiguous(memory_format=torch.channels_last))


@every_engine
def test_the_layers_below_the_top_are_computed_as_well(engine: str) -> None:
    backbone = make_backbone("efficientnet-lite0")
    assert_same(Layers(backbone.layers()[: backbone.first_top_layer], 0), engine, make_images())


@every_engine
def test_grey_images_and_sides_that_strides_do_not_divide(engine: str) -> None:
    assert_same(make_backbone("efficientnet-lite0", channels=1), engine, make_images(channels=1, side=33))


@every_engine
def test_the_layers_stay_as_they_are(engine: str) -> None:
    layers = make_backbone("wrn-10-1")
    before = copy.deepcopy(layers.state_dict())
    compile_layers(layers, (3, 16, 16), engine)  # type: ignore[arg-type]
    assert layers.state_dict().keys() == before.keys()
    assert all(torch.equal(value, before[key]) for key, value in layers.state_dict().items())


def test_norms_are_folded_into_the_convolutions_before_them() -> None:
    folded = compile_layers(make_backbone("efficientnet-lite0"), (3, 32, 32), "torch")
    assert not any(isinstance(part, nn.BatchNorm2d) for part in folded.modules())
    convolution, norm = nn.Conv2d(1, 1, 1, bias=False), nn.BatchNorm2d(1, eps=0.0)
    with torch.no_grad():
        for tensor, value in ((convolution.weight, 5), (norm.weight, 3), (norm.bias, 7)):
            tensor.fill_(value)
    norm.running_mean.fill_(1)  # type: ignore[union-attr]
    norm.running_var.fill_(4)  # type: ignore[union-attr]
    layers = nn.Sequential(convolution, norm).eval().requires_grad_(False)
    one = compile_layers(layers, (1, 2, 2), "torch")[0]  # type: ignore[index]
    assert (float(one.weight), float(one.bias)) == (7.5, 5.5)  # 5 * 3 / 2, and 7 - 1 * 3 / 2


class ReadTwice(nn.Module):
    """Something besides the norm reads the convolution."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)
        self.norm.running_mean = torch.rand(4)

    def forward(self, images: Tensor) -> Tensor:
        values = self.conv(images)
        return values + self.norm(values)


@every_engine
def test_a_convolution_that_is_read_twice_is_not_folded(engine: str) -> None:
    assert_same(ReadTwice().eval(), engine, make_images())


@pytest.mark.parametrize("engine", ["openvino", "onnx"])
@pytest.mark.parametrize(
    ("layer", "operation"),
    [
        (nn.ConvTranspose2d(3, 3, 2), "transposed convolution"),
        (nn.BatchNorm2d(3), "statistics of a batch"),
        (nn.Sequential(nn.Conv2d(3, 3, 1), nn.GELU()), "gelu"),
        (nn.Sequential(nn.Conv2d(3, 3, 1), nn.MaxPool2d(2, ceil_mode=True)), "max_pool2d"),
        (nn.Sequential(nn.Conv2d(3, 3, 1), nn.AdaptiveAvgPool2d(5)), "unequal parts"),
    ],
)
def test_an_operation_that_is_not_known_is_named(layer: nn.Module, operation: str, engine: str) -> None:
    with pytest.raises(UserError, match=rf"the engine {engine} does not know .*{operation}.*; use torch\."):
        compile_layers(layer, (3, 32, 32), engine)  # type: ignore[arg-type]


def test_an_engine_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("semco.models.engines.find_spec", lambda name: None if name == "openvino" else sys)
    assert installed_engines() == {"onnx", "torch"}
    with pytest.raises(UserError, match=r"needs openvino: pip install 'semco\[openvino\]', or use torch"):
        compile_layers(nn.Conv2d(3, 3, 1), (3, 8, 8), "openvino")
