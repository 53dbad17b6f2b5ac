"""EfficientNet-Lite (Tan and Le 2019; Liu 2020): EfficientNet for small devices.

Inverted residual blocks with ReLU6, without squeeze-and-excitation; stem and head are not scaled, nor is the depth of
the first and the last stage. Published weights were trained in TensorFlow: its SAME padding, and pixels normalised as
(x - 127) / 128.
Shapes: N images, C channels, H and W pixels, F = 1280 features.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import torch.nn.functional as F
from torch import Tensor, nn

from semco.models.backbone import Backbone, MeanPool, as_colour
from semco.models.normalisation import Norm, init_convolutions, norm_layer

MOMENTUM, EPS = 0.01, 1e-3
STEM, HEAD = 32, 1280
MEAN, STD = (127 / 255,) * 3, (128 / 255,) * 3
# In mode `top`, the sixth and seventh stage and the head are trained.
FIRST_TOP_STAGE = 5


class Stage(NamedTuple):
    repeats: int
    kernel: int
    stride: int
    expansion: int
    outputs: int


STAGES = (
    Stage(1, 3, 1, 1, 16),
    Stage(2, 3, 2, 6, 24),
    Stage(2, 5, 2, 6, 40),
    Stage(3, 3, 2, 6, 80),
    Stage(3, 5, 1, 6, 112),
    Stage(4, 5, 2, 6, 192),
    Stage(1, 3, 1, 6, 320),
)


@dataclass(frozen=True)
class LiteLayout:
    width: float  # factor of the channels
    depth: float  # factor of the repeats
    size: int  # side in pixels of the images of the published weights

    def stages(self) -> list[Stage]:
        """Return the stages with their scaled repeats and channels."""
        last = len(STAGES) - 1
        return [
            stage._replace(
                repeats=stage.repeats if i in (0, last) else math.ceil(stage.repeats * self.depth),
                outputs=_scaled_channels(stage.outputs, self.width),
            )
            for i, stage in enumerate(STAGES)
        ]


LITE_LAYOUTS = {
    "efficientnet-lite0": LiteLayout(1.0, 1.0, 224),
    "efficientnet-lite1": LiteLayout(1.0, 1.1, 240),
    "efficientnet-lite2": LiteLayout(1.1, 1.2, 260),
}


def _scaled_channels(channels: int, width: float) -> int:
    """Return the multiple of 8 nearest to the scaled number, or the next one if that is more than 10 % smaller."""
    scaled = channels * width
    rounded = max(8, int(scaled + 4) // 8 * 8)
    return rounded + 8 if rounded < 0.9 * scaled else rounded


class ConvNorm(nn.Module):
    """A convolution with TensorFlow's SAME padding, a norm, and ReLU6 if ``active``."""

    def __init__(
        self,
        inputs: int,
        outputs: int,
        norm: Norm,
        *,
        kernel: int = 1,
        stride: int = 1,
        groups: int = 1,
        active: bool = True,
    ) -> None:
        super().__init__()
        self.kernel, self.stride, self.active = kernel, stride, active
        # Without a stride, the same number of pixels is added on both sides.
        padding = kernel // 2 if stride == 1 else 0
        self.conv = nn.Conv2d(inputs, outputs, kernel, stride, padding, groups=groups, bias=False)
        self.norm = norm_layer(norm, outputs, MOMENTUM, EPS)

    def forward(self, x: Tensor) -> Tensor:
        if self.stride > 1:
            x = F.pad(x, (*_same_padding(x.shape[3], self.kernel, self.stride), *self._rows(x)))
        values: Tensor = self.norm(self.conv(x))
        return F.relu6(values, inplace=True) if self.active else values

    def _rows(self, x: Tensor) -> tuple[int, int]:
        return _same_padding(x.shape[2], self.kernel, self.stride)


def _same_padding(size: int, kernel: int, stride: int) -> tuple[int, int]:
    """Return the pixels before and after a side, so that the output has ceil(size / stride) pixels."""
    total = max((math.ceil(size / stride) - 1) * stride + kernel - size, 0)
    return total // 2, total - total // 2


class Stem(ConvNorm):
    """The first convolution; grey images are repeated to three channels."""

    def __init__(self, norm: Norm) -> None:
        super().__init__(3, STEM, norm, kernel=3, stride=2)

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(as_colour(x))


class InvertedResidual(nn.Module):
    """1x1 expansion, depthwise convolution, 1x1 projection; a shortcut where the shape does not change."""

    def __init__(self, inputs: int, stage: Stage, stride: int, norm: Norm) -> None:
        super().__init__()
        inner = inputs * stage.expansion
        self.expand = ConvNorm(inputs, inner, norm) if stage.expansion != 1 else nn.Identity()
        self.depthwise = ConvNorm(inner, inner, norm, kernel=stage.kernel, stride=stride, groups=inner)
        self.project = ConvNorm(inner, stage.outputs, norm, active=False)
        self.has_shortcut = stride == 1 and inputs == stage.outputs

    def forward(self, x: Tensor) -> Tensor:
        values: Tensor = self.project(self.depthwise(self.expand(x)))
        return x + values if self.has_shortcut else values


class EfficientNetLite(Backbone):
    """(N, C, H, W) -> (N, F)."""

    def __init__(self, layout: LiteLayout, norm: Norm) -> None:
        super().__init__()
        stages = layout.stages()
        self.stem = Stem(norm)
        blocks: list[nn.Module] = []
        channels = STEM
        for stage in stages:
            for block in range(stage.repeats):
                blocks.append(InvertedResidual(channels, stage, stage.stride if block == 0 else 1, norm))
                channels = stage.outputs
        self.blocks = nn.Sequential(*blocks)
        self.head = ConvNorm(channels, HEAD, norm)
        self.pool = MeanPool()
        self.out_features = HEAD
        self.first_top_layer = 1 + sum(stage.repeats for stage in stages[:FIRST_TOP_STAGE])
        init_convolutions(self)

    def layers(self) -> list[nn.Module]:
        return [self.stem, *self.blocks, self.head, self.pool]


_PUBLISHED_NAMES = {
    "_conv_stem": "stem.conv",
    "_bn0": "stem.norm",
    "_conv_head": "head.conv",
    "_bn1": "head.norm",
}
_PUBLISHED_NAMES_OF_BLOCK = {
    "_expand_conv": "expand.conv",
    "_bn0": "expand.norm",
    "_depthwise_conv": "depthwise.conv",
    "_bn1": "depthwise.norm",
    "_project_conv": "project.conv",
    "_bn2": "project.norm",
}


def from_published(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return published weights under the names of this module, without those of the ImageNet classifier."""
    renamed: dict[str, Tensor] = {}
    for key, tensor in weights.items():
        parts = key.split(".")
        if parts[0] == "_blocks":
            renamed[".".join(["blocks", parts[1], _PUBLISHED_NAMES_OF_BLOCK[parts[2]], *parts[3:]])] = tensor
        elif parts[0] != "_fc":
            renamed[".".join([_PUBLISHED_NAMES[parts[0]], *parts[1:]])] = tensor
    return renamed
