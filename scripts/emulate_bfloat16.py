"""Run a command of semco with bfloat16 as a CPU that has it computes, on a CPU that has not.

    python scripts/emulate_bfloat16.py train fashion-mini --set training.precision=bfloat16 ...

Without instructions for bfloat16 torch's own convolutions take many times as long as in float32. Here convolutions
round their inputs to bfloat16, multiply and add in float32, as those instructions do, and round the result. The
gradients of weights stay as precise as torch keeps them under autocast: bfloat16. All other operations are torch's own.
So the accuracy of a run can be measured here, and its speed cannot.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from semco.cli.main import main

HALF = torch.bfloat16


def rounded(values: Tensor) -> Tensor:
    """Return values that bfloat16 can hold, in float32."""
    return values.to(HALF).float()


class RoundedConvolution(torch.autograd.Function):
    """A convolution and its gradients with inputs and results in bfloat16, computed in float32."""

    @staticmethod
    def forward(ctx: Any, images: Tensor, weight: Tensor, *how: Any) -> Tensor:
        """``how``: stride, padding, dilation and groups."""
        ctx.save_for_backward(images, weight)
        ctx.how = how
        stride, padding, dilation, groups = how
        with torch.autocast("cpu", enabled=False):
            outputs = nn.functional.conv2d(rounded(images), rounded(weight), None, stride, padding, dilation, groups)
        return outputs.to(HALF)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        images, weight = ctx.saved_tensors
        stride, padding, dilation, groups = ctx.how
        wanted = [ctx.needs_input_grad[0], ctx.needs_input_grad[1], False]
        of_images, of_weight, _ = torch.ops.aten.convolution_backward(
            rounded(gradients[0]), rounded(images), rounded(weight), None, stride, padding, dilation, False, [0, 0],
            groups, wanted,
        )  # fmt: skip
        halves = [
            None if part is None else part.to(HALF).to(whole.dtype)
            for part, whole in ((of_images, images), (of_weight, weight))
        ]
        return (*halves, None, None, None, None)


def convolve(layer: nn.Conv2d, images: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Take the place of `torch.nn.Conv2d._conv_forward`."""
    if not torch.is_autocast_enabled("cpu"):
        return ORIGINAL(layer, images, weight, bias)
    if bias is not None or isinstance(layer.padding, str) or layer.padding_mode != "zeros":
        raise NotImplementedError("a convolution with a bias, or with padding by name or by copies")
    how = (layer.stride, layer.padding, layer.dilation, layer.groups)
    outputs: Tensor = RoundedConvolution.apply(images, weight, *how)
    return outputs


ORIGINAL = nn.Conv2d._conv_forward

if __name__ == "__main__":
    nn.Conv2d._conv_forward = convolve  # type: ignore[method-assign]
    main()
