"""Wide ResNet (Zagoruyko and Komodakis 2016) as FixMatch and SemCo use it for small images.

Pre-activation basic blocks, leaky ReLU of slope 0.1, batch norm of momentum 0.001.
Shapes: N images, C channels, H and W pixels, F = 64 * width features.
"""

from __future__ import annotations

from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from semco.errors import UserError
from semco.models.activation import Block, after_activation
from semco.models.backbone import Backbone
from semco.models.normalisation import Norm, init_convolutions, norm_layer

SLOPE = 0.1
MOMENTUM = 0.001


class PreActivationBlock(Block):
    """Two 3x3 convolutions, each after norm and activation, and a shortcut."""

    def __init__(self, inputs: int, outputs: int, stride: int, norm: Norm, activate_shortcut: bool) -> None:
        super().__init__()
        self.norm1 = norm_layer(norm, inputs, MOMENTUM)
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
        self.norm2 = norm_layer(norm, outputs, MOMENTUM)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        same = inputs == outputs and stride == 1
        self.shortcut = nn.Identity() if same else nn.Conv2d(inputs, outputs, 1, stride, bias=False)
        self.activate_shortcut = activate_shortcut

    def forward(self, x: Tensor) -> Tensor:
        shortcut, inner = after_activation(partial(self._first, x), self.norm1, x, SLOPE, self.recompute)
        residual = after_activation(self.conv2, self.norm2, inner, SLOPE, self.recompute)
        return torch.add(shortcut, residual)

    def _first(self, x: Tensor, active: Tensor) -> tuple[Tensor, Tensor]:
        """Return the shortcut and the first convolution."""
        return self.shortcut(active if self.activate_shortcut else x), self.conv1(active)


class WideResNet(Backbone):
    """(N, C, H, W) -> (N, F): three stages of (depth - 4) / 6 blocks, halving the side twice."""

    def __init__(self, depth: int, width: int, in_channels: int, norm: Norm) -> None:
        super().__init__()
        blocks = _blocks_per_stage(depth)
        sizes = [16, 16 * width, 32 * width, 64 * width]
        self.out_features = sizes[-1]
        self.stem = nn.Conv2d(in_channels, sizes[0], 3, padding=1, bias=False)
        self.stages = nn.Sequential(
            *(
                PreActivationBlock(
                    inputs=sizes[stage + (block > 0)],
                    outputs=sizes[stage + 1],
                    stride=2 if stage > 0 and block == 0 else 1,
                    norm=norm,
                    # The first shortcut starts after the activation, because nothing was normalised before.
                    activate_shortcut=stage == 0 and block == 0,
                )
                for stage in range(3)
                for block in range(blocks)
            )
        )
        self.norm = norm_layer(norm, sizes[-1], MOMENTUM)
        self.pool = ActiveMeanPool()
        self.first_top_layer = 1 + 2 * blocks  # the last stage
        init_convolutions(self)

    def layers(self) -> list[nn.Module]:
        return [self.stem, *self.stages, self.norm, self.pool]


class ActiveMeanPool(nn.Module):
    """(N, F, H, W) -> (N, F): the mean of the activated maps, which are overwritten."""

    def forward(self, maps: Tensor) -> Tensor:
        return F.leaky_relu(maps, SLOPE, inplace=True).mean(dim=(2, 3))


def _blocks_per_stage(depth: int) -> int:
    if depth < 10 or (depth - 4) % 6:
        near = 4 + 6 * max(1, round((depth - 4) / 6))
        raise UserError(f"a wide ResNet has depth 6n+4 (10, 16, 22, 28, 40), not {depth}; the nearest is {near}.")
    return (depth - 4) // 6
