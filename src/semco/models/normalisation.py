"""Batch normalisation whose running statistics are usable early in a run.

Shapes: N images, C channels, H and W pixels.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from semco.distributed.processes import is_distributed, mean_over_processes, process_count
from semco.models.averaging import update_weight

# Momentum of norms in networks of other libraries, some of which have none that is usable.
OWN_MOMENTUM = 0.01


@dataclass(frozen=True)
class Norm:
    """The kind of normalisation layers, and whether their running statistics follow faster at first."""

    kind: Literal["batch", "none"] = "batch"
    warmup: bool = True


class WarmBatchNorm2d(nn.BatchNorm2d):
    """`nn.BatchNorm2d` whose running statistics follow faster at first (``warmup``).

    NOTE: the FixMatch networks use momentum 0.001, which after 500 updates still holds 60 % of the initial mean 0 and
    variance 1. With warm-up the n-th update has the weight max(momentum, 9 / (9 + n)), as the EMA of the weights; after
    9 / momentum updates there is no difference. The state is that of the parent class.

    ``is_synchronised``: all processes normalise by the statistics of all their images; each has the same number.
    """

    is_synchronised = False
    warmup = True

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
        """Return the normalised input, and the mean and unbiased variance (C,) of this batch."""
        if not self.is_local:
            return self._normalise_over_processes(input)
        # With momentum 1 the two fresh buffers receive the statistics of this batch.
        mean, var = (torch.zeros_like(buffer) for buffer in like)
        output = F.batch_norm(input, mean, var, self.weight, self.bias, True, 1.0, self.eps)
        return output, mean, var

    def _normalise_over_processes(self, input: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Do the same as `_normalise` over the images of all processes."""
        wide = input.float() if input.dtype in (torch.float16, torch.bfloat16) else input
        mean = mean_over_processes(wide.mean((0, 2, 3)))  # (C,)
        centred = wide - mean[:, None, None]
        var = mean_over_processes(centred.square().mean((0, 2, 3)))  # (C,)
        output = centred * (self.weight * (var + self.eps).rsqrt())[:, None, None] + self.bias[:, None, None]
        count = process_count() * input.numel() // input.shape[1]
        return output.to(input.dtype), mean.detach(), var.detach() * (count / max(1, count - 1))

    @property
    def is_local(self) -> bool:
        """Whether the statistics are those of this process's images alone."""
        return not (self.is_synchronised and is_distributed())

    def repeat(self, input: Tensor) -> Tensor:
        """Return what `forward` returned, bit for bit, without updating the statistics again."""
        return self._without_update(input)

    def _without_update(self, input: Tensor) -> Tensor:
        if self.training and not self.is_local:
            return self._normalise_over_processes(input)[0]
        if self.training or not self.track_running_stats:
            return F.batch_norm(input, None, None, self.weight, self.bias, True, 0.0, self.eps)
        return F.batch_norm(input, self.running_mean, self.running_var, self.weight, self.bias, False, 0.0, self.eps)

    def _update_weight(self, dtype: torch.dtype) -> Tensor:
        """Return the weight of this update, ()."""
        assert self.num_batches_tracked is not None
        assert self.momentum is not None
        self.num_batches_tracked.add_(1)
        if not self.warmup:
            return torch.full((), self.momentum, dtype=dtype, device=self.num_batches_tracked.device)
        return update_weight(self.num_batches_tracked, self.momentum).to(dtype)


def synchronise(network: nn.Module) -> None:
    """Make every normalisation layer of a network use the images of all processes as one batch."""
    for layer in network.modules():
        if isinstance(layer, WarmBatchNorm2d):
            layer.is_synchronised = True


def norm_layer(norm: Norm, channels: int, momentum: float, eps: float = 1e-5) -> nn.Module:
    """Return a normalisation layer over (N, C, H, W), or an identity."""
    if norm.kind == "none":
        return nn.Identity()
    layer = WarmBatchNorm2d(channels, eps=eps, momentum=momentum)
    layer.warmup = norm.warmup
    return layer


def own_norms(network: nn.Module) -> None:
    """Replace torch's batch norms by ours: the same state, `OWN_MOMENTUM` for all, and no warm-up."""
    for module in list(network.modules()):
        for name, child in list(module.named_children()):
            if type(child) is nn.BatchNorm2d:
                layer = norm_layer(Norm(warmup=False), child.num_features, OWN_MOMENTUM, child.eps)
                layer.load_state_dict(child.state_dict())
                setattr(module, name, layer)


def init_convolutions(module: nn.Module) -> None:
    """Initialise every convolution as He et al. 2015 (fan-out), as FixMatch and the ResNet reference do."""
    for part in module.modules():
        # On the meta device there is nothing to draw, and torch would import its compiler for it: over a second.
        if isinstance(part, nn.Conv2d) and not part.weight.is_meta:
            nn.init.kaiming_normal_(part.weight, mode="fan_out", nonlinearity="relu")
            if part.groups > 1:  # torch counts the outputs of all groups
                part.weight.data.mul_(part.groups**0.5)
