"""Networks: sizes against published or hand-computed counts, shapes, and reproducible starts."""

from __future__ import annotations

from typing import Literal

import pytest
import torch
from torch import Tensor, nn

from semco.config import ModelConfig
from semco.errors import UserError
from semco.models import HEADS, Network, build_network, inspect_backbone
from semco.models.normalisation import Norm
from semco.models.resnet import ResidualBlock, ResNet
from semco.models.wide_resnet import WideResNet


def build(
    backbone: str = "wrn-10-1",
    heads: tuple[str, ...] = ("one_hot",),
    *,
    classes: int = 10,
    channels: int = 3,
    size: int = 32,
    seed: int = 0,
    **fields: object,
) -> Network:
    torch.manual_seed(seed)
    config = ModelConfig(backbone=backbone, **fields)  # type: ignore[arg-type]
    return build_network(config, heads, classes, embedding_dim=5, in_channels=channels, image_size=size)


def count(module: nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())


def wide_count(depth: int, width: int, channels: int, classes: int) -> int:
    """Parameters of a wide ResNet, counted from the description of the network alone."""
    total = 9 * channels * 16
    inputs = 16
    for stage in range(3):
        outputs = 16 * width * 2**stage
        for block in range((depth - 4) // 6):
            total += 2 * inputs + 9 * inputs * outputs + 2 * outputs + 9 * outputs * outputs
            if inputs != outputs or (stage > 0 and block == 0):
                total += inputs * outputs
            inputs = outputs
    return total + 2 * inputs + inputs * classes + classes


@pytest.mark.parametrize(
    ("backbone", "classes", "size", "published"),
    [
        ("wrn-28-2", 10, 32, 1_467_610),  # FixMatch, MixMatch: "1.5 M"
        ("resnet18", 1000, 224, 11_689_512),
        ("resnet50", 1000, 224, 25_557_032),
    ],
)
def test_published_parameter_counts(backbone: str, classes: int, size: int, published: int) -> None:
    assert count(build(backbone, classes=classes, size=size)) == published


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize(("depth", "width"), [(10, 1), (10, 2), (16, 2), (22, 3), (28, 8)])
def test_wide_resnet_counts(depth: int, width: int, channels: int) -> None:
    network = build(f"wrn-{depth}-{width}", classes=7, channels=channels)
    assert count(network) == wide_count(depth, width, channels, 7)


def test_small_stem_count() -> None:
    # A 3x3 instead of a 7x7 convolution over three channels into 64.
    large, small = (inspect_backbone(ModelConfig(backbone="resnet18", stem=stem), 3, 32) for stem in ("large", "small"))
    assert count(large) - count(small) == (49 - 9) * 3 * 64


@pytest.mark.parametrize(
    ("backbone", "size"),
    [("wrn-10-1", 8), ("wrn-10-1", 28), ("wrn-10-1", 33), ("resnet18", 65), ("resnet50", 8)],
)
def test_shapes_of_outputs(backbone: str, size: int) -> None:
    network = build(backbone, HEADS, channels=1, size=size).eval()
    outputs = network(torch.randn(2, 1, size, size))
    assert outputs.features.shape == (2, network.backbone.out_features)
    assert outputs.logits.shape == (2, 10)
    assert outputs.embedding is not None
    assert outputs.embedding.shape == (2, 5)
    assert outputs.rotation is not None
    assert outputs.rotation.shape == (2, 4)


def test_heads_that_were_not_asked_for_are_none() -> None:
    outputs = build()(torch.randn(2, 3, 32, 32))
    assert outputs.embedding is None
    assert outputs.rotation is None


def test_heads_from_features_equals_forward() -> None:
    network = build(heads=HEADS).eval()
    images = torch.randn(3, 3, 16, 16)
    whole, parts = network(images), network.heads_from(network.backbone(images))
    assert torch.equal(whole.logits, parts.logits)
    assert torch.equal(whole.embedding, parts.embedding)


def test_mlp_head_count() -> None:
    plain, mlp = build(heads=HEADS), build(heads=HEADS, semantic_head="mlp", mlp_hidden=11)
    assert count(plain.heads["semantic"]) == 64 * 5 + 5
    assert count(mlp.heads["semantic"]) == 64 * 11 + 11 + 11 * 5 + 5


def same(a: nn.Module, b: nn.Module) -> bool:
    pairs = zip(a.state_dict().values(), b.state_dict().values(), strict=True)
    return all(torch.equal(x, y) for x, y in pairs)


def test_start_is_a_function_of_the_seed() -> None:
    assert same(build(seed=3), build(seed=3))
    assert not same(build(seed=3), build(seed=4))


def test_no_part_depends_on_which_heads_are_built() -> None:
    alone, both, all_heads = build(), build(heads=("one_hot", "semantic")), build(heads=HEADS[::-1])
    for network in (both, all_heads):
        assert same(alone.backbone, network.backbone)
        assert same(alone.heads["one_hot"], network.heads["one_hot"])
    assert same(both.heads["semantic"], all_heads.heads["semantic"])
    assert same(both.heads["semantic"], build(heads=("semantic",)).heads["semantic"])


def test_heads_of_the_same_shape_start_differently() -> None:
    network = build(heads=HEADS, classes=4)
    assert not same(network.heads["one_hot"], network.heads["rotation"])


def test_random_state_afterwards_does_not_depend_on_heads() -> None:
    draws = []
    for heads in (("one_hot",), HEADS):
        build(heads=heads)
        draws.append(float(torch.rand(())))
    assert draws[0] == draws[1]


@pytest.mark.parametrize("norm", ["batch", "none"])
def test_norm_field(norm: str) -> None:
    layers = [m for m in build(norm=norm).modules() if isinstance(m, nn.BatchNorm2d)]
    assert bool(layers) == (norm == "batch")
    assert all(layer.momentum == 0.001 for layer in layers)


def test_without_norm_an_image_does_not_see_its_neighbours() -> None:
    network = build(norm="none")
    images = torch.randn(4, 3, 8, 8)
    torch.testing.assert_close(network(images).logits[:2], network(images[:2]).logits)


@pytest.mark.parametrize(("stem", "kernel"), [("small", (3, 3)), ("large", (7, 7))])
def test_the_stem_is_as_configured(stem: Literal["small", "large"], kernel: tuple[int, int]) -> None:
    backbone = inspect_backbone(ModelConfig(backbone="resnet18", stem=stem), 3, 64)
    assert isinstance(backbone, ResNet)
    first = backbone.stem[0]
    assert isinstance(first, nn.Conv2d)
    assert first.kernel_size == kernel


def test_wide_resnet_against_a_slow_version() -> None:
    """One block a stage without norm, written out by hand from the description."""
    torch.manual_seed(0)
    network = WideResNet(10, 2, 3, Norm("none")).double()
    x = torch.randn(2, 3, 8, 8, dtype=torch.float64)

    def leaky(t: Tensor) -> Tensor:
        return torch.where(t > 0, t, 0.1 * t)

    weights = dict(network.named_parameters())
    h = nn.functional.conv2d(x, weights["stem.weight"], padding=1)
    for stage, stride in enumerate((1, 2, 2)):
        active = leaky(h)
        r = nn.functional.conv2d(active, weights[f"stages.{stage}.conv1.weight"], stride=stride, padding=1)
        r = nn.functional.conv2d(leaky(r), weights[f"stages.{stage}.conv2.weight"], padding=1)
        source = active if stage == 0 else h
        h = r + nn.functional.conv2d(source, weights[f"stages.{stage}.shortcut.weight"], stride=stride)
    torch.testing.assert_close(network(x), leaky(h).mean(dim=(2, 3)))


def test_bottleneck_against_a_slow_version() -> None:
    torch.manual_seed(0)
    block = ResidualBlock((6, 2, 2, 8), kernels=(1, 3, 1), strided=1, stride=2, norm=Norm("none")).double()
    x = torch.randn(2, 6, 5, 5, dtype=torch.float64)
    conv = nn.functional.conv2d
    w = dict(block.named_parameters())
    r = conv(conv(x, w["convs.0.weight"]).relu(), w["convs.1.weight"], stride=2, padding=1).relu()
    expected = (conv(r, w["convs.2.weight"]) + conv(x, w["shortcut.0.weight"], stride=2)).relu()
    torch.testing.assert_close(block(x), expected)


def test_resnet50_strides_in_its_3x3_convolutions() -> None:
    backbone = inspect_backbone(ModelConfig(backbone="resnet50"), 3, 224)
    strided = [m for m in backbone.stages.modules() if isinstance(m, nn.Conv2d) and m.stride == (2, 2)]  # type: ignore[union-attr]
    assert [conv.kernel_size for conv in strided] == 3 * [(3, 3), (1, 1)]  # the 1x1 ones are projections
    assert [conv.in_channels for conv in strided[1::2]] == [256, 512, 1024]


def test_convolutions_start_with_he_fan_out() -> None:
    backbone = build("wrn-28-2").backbone
    weight = backbone.stages[-1].conv2.weight  # type: ignore[union-attr, index]
    assert float(weight.detach().std()) == pytest.approx((2 / (9 * 128)) ** 0.5, rel=0.02)


@pytest.mark.parametrize(
    ("backbone", "sentence"),
    [
        ("resnet81", r"unknown backbone 'resnet81'; did you mean 'resnet18'\? Known: .*wrn-28-2"),
        ("wrn-27-2", r"depth 6n\+4 .*, not 27; the nearest is 28\."),
        ("wrn-4-2", r"not 4; the nearest is 10\."),
        ("wrn-28-0", r"backbone 'wrn-28-0' cannot be built: the width is 1 to 64 and the depth at most"),
        ("wide", r"unknown backbone 'wide'\. Known: "),
    ],
)
def test_bad_backbones(backbone: str, sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        build(backbone)
