"""ResNet (He et al. 2016), version 1.5: the stride of a bottleneck sits in its 3x3 convolution.

Shapes: N images, C channels, H and W pixels, F features.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch.nn.functional as F
from torch import Tensor, nn

from semco.models.activation import Block, after_activation
from semco.models.backbone import Backbone, MeanPool
from semco.models.normalisation import Norm, init_convolutions, norm_layer

MOMENTUM = 0.1
Stem = Literal["small", "large"]


@dataclass(frozen=True)
class ResNetLayout:
    blocks: tuple[int, int, int, int]  # blocks in each of the four stages
    bottleneck: bool

    @property
    def expansion(self) -> int:
        """Output channels of a block per channel of its 3x3 convolution."""
        return 4 if self.bottleneck else 1


LAYOUTS = {
    "resnet18": ResNetLayout((2, 2, 2, 2), bottleneck=False),
    "resnet50": ResNetLayout((3, 4, 6, 3), bottleneck=True),
}


class ResidualBlock(Block):
    """Convolutions, each followed by a norm, and a shortcut; ReLU between them and after the sum."""

    def __init__(self, sizes: Sequence[int], kernels: Sequence[int], strided: int, stride: int, norm: Norm) -> None:
        """``sizes``: channels before, between, after the convolutions; ``strided``: which has the stride."""
        super().__init__()
        self.convs = nn.ModuleList()
        self.norms = nn.ModuleList()
        for i, kernel in enumerate(kernels):
            step = stride if i == strided else 1
            self.convs.append(nn.Conv2d(sizes[i], sizes[i + 1], kernel, step, padding=kernel // 2, bias=False))
            self.norms.append(norm_layer(norm, sizes[i + 1], MOMENTUM))
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or sizes[0] != sizes[-1]:
            projection = nn.Conv2d(sizes[0], sizes[-1], 1, stride, bias=False)
            self.shortcut = nn.Sequential(projection, norm_layer(norm, sizes[-1], MOMENTUM))

    def forward(self, x: Tensor) -> Tensor:
        residual = self.convs[0](x)
        for norm, conv in zip(self.norms[:-1], self.convs[1:], strict=True):
            residual = after_activation(conv, norm, residual, 0.0, self.recompute)
        return F.relu(self.shortcut(x) + self.norms[-1](residual), inplace=True)


class ResNet(Backbone):
    """(N, C, H, W) -> (N, F)."""

    def __init__(self, layout: ResNetLayout, stem: Stem, in_channels: int, norm: Norm) -> None:
        super().__init__()
        self.stem = _stem(stem, in_channels, norm)
        blocks: list[nn.Module] = []
        channels = 64
        for stage, count in enumerate(layout.blocks):
            for block in range(count):
                stride = 2 if stage > 0 and block == 0 else 1
                blocks.append(_block(layout, channels, 64 * 2**stage, stride, norm))
                channels = 64 * 2**stage * layout.expansion
        self.stages = nn.Sequential(*blocks)
        self.pool = MeanPool()
        self.out_features = channels
        self.first_top_layer = 1 + sum(layout.blocks[:-1])  # the last stage
        init_convolutions(self)

    def layers(self) -> list[nn.Module]:
        return [self.stem, *self.stages, self.pool]


def _stem(stem: Stem, in_channels: int, norm: Norm) -> nn.Sequential:
    """Return the first layers: they reduce the side of large images to a quarter and keep that of small ones."""
    if stem == "small":
        conv = nn.Conv2d(in_channels, 64, 3, padding=1, bias=False)
        return nn.Sequential(conv, norm_layer(norm, 64, MOMENTUM), nn.ReLU(inplace=True))
    conv = nn.Conv2d(in_channels, 64, 7, stride=2, padding=3, bias=False)
    after = nn.ReLU(inplace=True), nn.MaxPool2d(3, stride=2, padding=1)
    return nn.Sequential(conv, norm_layer(norm, 64, MOMENTUM), *after)


def _block(layout: ResNetLayout, inputs: int, inner: int, stride: int, norm: Norm) -> ResidualBlock:
    outputs = inner * layout.expansion
    if layout.bottleneck:
        return ResidualBlock((inputs, inner, inner, outputs), kernels=(1, 3, 1), strided=1, stride=stride, norm=norm)
    return ResidualBlock((inputs, inner, outputs), kernels=(3, 3), strided=0, stride=stride, norm=norm)
