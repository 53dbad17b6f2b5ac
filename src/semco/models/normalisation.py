"""Batch normalisation whose running statistics are of use early in a run.

Shapes: N images, C channels, H and W pixels.
"""

from __future__ import annotations

from typing import Literal

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn

from semco.across import mean_across
from semco.averaging import update_weight

Norm = Literal["batch", "none"]


class WarmBatchNorm2d(nn.BatchNorm2d):
    """`nn.BatchNorm2d` with a memory that grows with the run, up to 1 / momentum updates.

    NOTE: the FixMatch networks use momentum 0.001, which after 500 updates still holds 60 % of the initial
    mean 0 and variance 1. The n-th update therefore weighs max(momentum, 9 / (9 + n)), the rule of the
    warmed-up weight average; after 9 / momentum updates there is no difference. The state is the parent's.

    ``synchronised``: several processes normalise by the statistics of all their images together, of which each
    has equally many.
    """

    synchronised = False

    def forward(self, input: Tensor) -> Tensor:
        if not (self.training and self.track_running_stats and self.momentum):
            return self._without_update(input)
        assert self.running_mean is not None
        assert self.running_var is not None
        output, mean, var = self._normalise(input, self.running_mean, self.running_var)
        weight = self._update_weight(mean.dtype)
        self.running_mean.lerp_(mean, weight)
        self.running_var.lerp_(var, weight)
        return output

    def _normalise(self, input: Tensor, *like: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Normalised input, and the mean and unbiased variance (C,) of this batch."""
        if not self.is_local:
            return self._normalise_together(input)
        # With momentum 1 the two fresh buffers receive the statistics of this batch.
        mean, var = (torch.zeros_like(buffer) for buffer in like)
        output = F.batch_norm(input, mean, var, self.weight, self.bias, True, 1.0, self.eps)
        return output, mean, var

    def _normalise_together(self, input: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """`_normalise` over the images of all processes."""
        wide = input.float() if input.dtype in (torch.float16, torch.bfloat16) else input
        mean = mean_across(wide.mean((0, 2, 3)))  # (C,)
        centred = wide - mean[:, None, None]
        var = mean_across(centred.square().mean((0, 2, 3)))  # (C,)
        output = centred * (self.weight * (var + self.eps).rsqrt())[:, None, None] + self.bias[:, None, None]
        count = dist.get_world_size() * input.numel() // input.shape[1]
        return output.to(input.dtype), mean.detach(), var.detach() * (count / max(1, count - 1))

    @property
    def is_local(self) -> bool:
        """Whether the statistics are of this process's images alone."""
        return not (self.synchronised and dist.is_initialized())

    def again(self, input: Tensor) -> Tensor:
        """What `forward` gave, number for number, when nothing has changed since; no statistics are updated."""
        return self._without_update(input)

    def _without_update(self, input: Tensor) -> Tensor:
        if self.training and not self.is_local:
            return self._normalise_together(input)[0]
        if self.training or not self.track_running_stats:
            return F.batch_norm(input, None, None, self.weight, self.bias, True, 0.0, self.eps)
        return F.batch_norm(input, self.running_mean, self.running_var, self.weight, self.bias, False, 0.0, self.eps)

    def _update_weight(self, dtype: torch.dtype) -> Tensor:
        """The weight of this update, ()."""
        assert self.num_batches_tracked is not None
        assert self.momentum is not None
        self.num_batches_tracked.add_(1)
        return update_weight(self.num_batches_tracked, self.momentum).to(dtype)


def synchronise(network: nn.Module) -> None:
    """Let every normalisation layer of a network see the images of all processes as one batch."""
    for layer in network.modules():
        if isinstance(layer, WarmBatchNorm2d):
            layer.synchronised = True


def norm_layer(kind: Norm, channels: int, momentum: float) -> nn.Module:
    """A normalisation layer over (N, C, H, W), or nothing."""
    return WarmBatchNorm2d(channels, momentum=momentum) if kind == "batch" else nn.Identity()


def init_convolutions(module: nn.Module) -> None:
    """He et al. 2015, fan-out, on every convolution, as FixMatch and the ResNet reference do."""
    for part in module.modules():
        if isinstance(part, nn.Conv2d):
            nn.init.kaiming_normal_(part.weight, mode="fan_out", nonlinearity="relu")
