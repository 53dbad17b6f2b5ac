"""EfficientNet-Lite against an independent functional version over the published weights, and its sizes."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from semco.config import ModelConfig
from semco.errors import UserError
from semco.models import build_backbone, inspect_backbone
from semco.models.efficientnet_lite import LITE_LAYOUTS, STAGES, EfficientNetLite
from semco.models.normalisation import Norm
from semco.models.pretrained import PUBLISHED_WEIGHTS, is_installed

NAMES = tuple(LITE_LAYOUTS)
with_weights = pytest.mark.skipif(not all(map(is_installed, NAMES)), reason="needs the extra `pretrained`")


def published(name: str) -> dict[str, Tensor]:
    path = PUBLISHED_WEIGHTS[name].path()
    assert path is not None
    weights: dict[str, Tensor] = torch.load(path, weights_only=True)
    return weights


def reference_features(weights: dict[str, Tensor], images: Tensor, strides: list[int]) -> Tensor:
    """Return the features, computed from the published tensors alone."""

    def conv(x: Tensor, name: str, stride: int = 1) -> Tensor:
        weight = weights[f"{name}.weight"]
        kernel = weight.shape[-1]
        pads = []
        for size in (x.shape[3], x.shape[2]):
            left_over = size % stride
            total = max(kernel - (left_over or stride), 0)
            pads += [total // 2, total - total // 2]
        groups = x.shape[1] // weight.shape[1]
        return F.conv2d(F.pad(x, pads), weight, stride=stride, groups=groups)

    def norm(x: Tensor, name: str) -> Tensor:
        mean, var, scale, shift = (
            weights[f"{name}.{part}"] for part in ("running_mean", "running_var", "weight", "bias")
        )
        return F.batch_norm(x, mean, var, scale, shift, eps=1e-3)

    def relu6(x: Tensor) -> Tensor:
        return x.clamp(0, 6)

    x = relu6(norm(conv(images, "_conv_stem", 2), "_bn0"))
    for i, stride in enumerate(strides):
        block = f"_blocks.{i}"
        before = x
        if f"{block}._expand_conv.weight" in weights:
            x = relu6(norm(conv(x, f"{block}._expand_conv"), f"{block}._bn0"))
        x = relu6(norm(conv(x, f"{block}._depthwise_conv", stride), f"{block}._bn1"))
        x = norm(conv(x, f"{block}._project_conv"), f"{block}._bn2")
        if x.shape == before.shape:
            x = x + before
    return relu6(norm(conv(x, "_conv_head"), "_bn1")).mean(dim=(2, 3))


STRIDES_LITE0 = [1, 2, 1, 2, 1, 2, 1, 1, 1, 1, 1, 2, 1, 1, 1, 1]


@with_weights
@pytest.mark.parametrize(("height", "width"), [(224, 224), (97, 130)])
def test_features_of_lite0_equal_an_independent_version(height: int, width: int) -> None:
    images = torch.randn(2, 3, height, width, generator=torch.Generator().manual_seed(0))
    backbone = build_backbone(ModelConfig(backbone="efficientnet-lite0"), 3, 224).eval()
    with torch.no_grad():
        expected = reference_features(published("efficientnet-lite0"), images, STRIDES_LITE0)
        torch.testing.assert_close(backbone(images), expected, rtol=0, atol=1e-4)
    assert float(expected.std()) > 0.1


@with_weights
@pytest.mark.parametrize("name", NAMES)
def test_all_published_weights_fit_and_their_origin_is_known(name: str) -> None:
    backbone = build_backbone(ModelConfig(backbone=name), 3, 64)
    own, given = backbone.state_dict(), published(name)
    assert len(own) == len(given) - 2  # the classifier is left out
    assert torch.equal(own["stem.conv.weight"], given["_conv_stem.weight"])
    assert torch.equal(own["blocks.3.depthwise.norm.running_var"], given["_blocks.3._bn1.running_var"])
    assert "Apache-2.0" in backbone.provenance
    assert PUBLISHED_WEIGHTS[name].sha256 in backbone.provenance


@pytest.mark.parametrize(
    ("name", "with_classifier", "blocks", "first_top"),
    [
        ("efficientnet-lite0", 4_652_008, 16, 12),
        ("efficientnet-lite1", 5_416_680, 21, 16),
        ("efficientnet-lite2", 6_092_072, 21, 16),
    ],
)
def test_published_sizes(name: str, with_classifier: int, blocks: int, first_top: int) -> None:
    backbone = inspect_backbone(ModelConfig(backbone=name), 3, 224)
    assert sum(p.numel() for p in backbone.parameters()) == with_classifier - 1281 * 1000
    assert len(backbone.layers()) == blocks + 3
    assert backbone.first_top_layer == first_top
    assert backbone.out_features == 1280


def test_only_published_weights_expect_a_size_and_a_normalisation() -> None:
    loaded = inspect_backbone(ModelConfig(backbone="efficientnet-lite1"), 3, 32)
    assert (loaded.native_size, loaded.mean, loaded.std) == (240, (127 / 255,) * 3, (128 / 255,) * 3)
    scratch = inspect_backbone(ModelConfig(backbone="efficientnet-lite1", pretrained="none"), 3, 32)
    assert (scratch.native_size, scratch.mean, scratch.std) == (None, None, None)


def test_grey_images_are_repeated() -> None:
    config = ModelConfig(backbone="efficientnet-lite0", pretrained="none")
    backbone = build_backbone(config, 1, 32).eval()
    grey = torch.randn(2, 1, 33, 32)
    torch.testing.assert_close(backbone(grey), backbone(grey.repeat(1, 3, 1, 1)))
    assert inspect_backbone(ModelConfig(backbone="efficientnet-lite0"), 1, 32).mean == pytest.approx((127 / 255,))


def test_only_random_statistics_follow_faster_at_first() -> None:
    """The published files count no updates: with warm-up, the first batch would replace their statistics."""

    def warmups(**fields: str) -> set[bool]:
        backbone = inspect_backbone(ModelConfig(backbone="efficientnet-lite0", **fields), 3, 32)  # type: ignore[arg-type]
        return {bool(part.warmup) for part in backbone.modules() if isinstance(part, nn.BatchNorm2d)}

    assert warmups() == {False}
    assert warmups(pretrained="none") == {True}


def test_published_weights_need_batch_normalisation() -> None:
    with pytest.raises(UserError, match=r"model\.norm=none .* use model\.norm=batch"):
        inspect_backbone(ModelConfig(backbone="efficientnet-lite0", norm="none"), 3, 32)


def test_depthwise_convolutions_start_with_their_own_fan_out() -> None:
    torch.manual_seed(0)
    backbone = EfficientNetLite(LITE_LAYOUTS["efficientnet-lite0"], Norm())
    last = backbone.blocks[-1].depthwise.conv  # type: ignore[union-attr]
    assert float(last.weight.detach().std()) == pytest.approx((2 / STAGES[-1].kernel ** 2) ** 0.5, rel=0.05)  # type: ignore[union-attr, operator]
