"""Batch normalisation whose running statistics are of use early in a run.

Shapes: N images, C channels, H and W pixels.
"""

from __future__ import annotations

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Norm = Literal["batch", "none"]


class WarmBatchNorm2d(nn.BatchNorm2d):
    """`nn.BatchNorm2d` with a memory that grows with the run, up to 1 / momentum updates.

    NOTE: the FixMatch networks use momentum 0.001, which after 500 updates still holds 60 % of the initial
    mean 0 and variance 1. The n-th update therefore weighs max(momentum, 9 / (9 + n)), the rule of the
    warmed-up weight average; after 9 / momentum updates there is no difference. The state is the parent's.
    """

    def forward(self, input: Tensor) -> Tensor:
        if not (self.training and self.track_running_stats and self.momentum):
            return self._without_update(input)
        assert self.running_mean is not None
        assert self.running_var is not None
        # With momentum 1 the two fresh buffers receive the statistics of this batch.
        mean, var = torch.zeros_like(self.running_mean), torch.ones_like(self.running_var)
        output = F.batch_norm(input, mean, var, self.weight, self.bias, True, 1.0, self.eps)
        weight = self._update_weight(mean.dtype)
        self.running_mean.lerp_(mean, weight)
        self.running_var.lerp_(var, weight)
        return output

    def _without_update(self, input: Tensor) -> Tensor:
        if self.training or not self.track_running_stats:
            return F.batch_norm(input, None, None, self.weight, self.bias, True, 0.0, self.eps)
        return F.batch_norm(input, self.running_mean, self.running_var, self.weight, self.bias, False, 0.0, self.eps)

    def _update_weight(self, dtype: torch.dtype) -> Tensor:
        """The weight of this update, () float; a tensor, so that a GPU is not waited for."""
        assert self.num_batches_tracked is not None
        assert self.momentum is not None
        self.num_batches_tracked.add_(1)
        return (9.0 / (9.0 + self.num_batches_tracked)).clamp(min=self.momentum).to(dtype)


def norm_layer(kind: Norm, channels: int, momentum: float) -> nn.Module:
    """A normalisation layer over (N, C, H, W), or nothing."""
    return WarmBatchNorm2d(channels, momentum=momentum) if kind == "batch" else nn.Identity()


def init_convolutions(module: nn.Module) -> None:
    """He et al. 2015, fan-out, on every convolution, as FixMatch and the ResNet reference do."""
    for part in module.modules():
        if isinstance(part, nn.Conv2d):
            nn.init.kaiming_normal_(part.weight, mode="fan_out", nonlinearity="relu")
