"""What every backbone has: its layers in order, the images that it expects, and where its weights come from.

Shapes: N images, C channels, H and W pixels, F features.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, Literal

import torch
from torch import Tensor, nn

Precision = Literal["float32", "bfloat16"]
# Of a close-up, the second view of a photo (docs/lab/photos.md).
ENLARGED = 1.3


class Backbone(nn.Module, ABC):
    """(N, C, H, W) -> (N, F): the composition of `layers`."""

    out_features: int
    first_top_layer: int
    """Index of the first layer that is trained if only the top of the backbone is: the last fifth to quarter of it."""
    native_size: int | None = None
    """Side in pixels of the images that the weights were made for; None: any."""
    mean: tuple[float, ...] | None = None
    """Mean of each channel that the weights expect, of pixels scaled to [0, 1]; None: that of the data set."""
    std: tuple[float, ...] | None = None
    """Standard deviation of each channel that the weights expect; None: that of the data set."""
    provenance: str = ""
    """Where the weights were loaded from and under which licence; empty: they were drawn from the seed."""
    precision: Precision = "float32"
    """Precision of the computation. The weights, the inputs and the outputs are float32 in any case."""
    architecture: Mapping[str, Any] = {}
    """What a saved model needs, besides the configuration, to build this backbone without its original files."""

    @abstractmethod
    def layers(self) -> list[nn.Module]:
        """Return the modules whose composition, in this order, is `forward`."""

    def forward(self, images: Tensor) -> Tensor:
        """Return the features (N, F) of images (N, C, H, W)."""
        if self.precision == "float32":
            return self._run(images)
        with torch.autocast(images.device.type, torch.bfloat16):
            return self._run(images).float()

    def views(self, images: Tensor, *, has_close_up: bool) -> Tensor:
        """Return the features (N, V, F) of images (N, C, H, W), and if asked those of their close-ups."""
        return features_of_views(self, images, has_close_up)

    def _run(self, images: Tensor) -> Tensor:
        values = images
        for layer in self.layers():
            values = layer(values)
        return values

    def expect(self, size: int | None, mean: tuple[float, ...], std: tuple[float, ...], channels: int) -> None:
        """Set the images that the weights expect; grey images (1 channel) get the average over the colours."""
        self.native_size = size
        self.mean, self.std = (value if channels == len(value) else (sum(value) / len(value),) for value in (mean, std))


def has_bfloat16(device: torch.device) -> bool:
    """Return whether a device is a GPU with instructions for bfloat16."""
    return device.type == "cuda" and bool(torch.cuda.is_bf16_supported(including_emulation=False))


def usable_precision(saved: Precision, device: torch.device) -> Precision:
    """Return the precision in which a saved model predicts: its own on GPUs that have it, else float32."""
    return saved if has_bfloat16(device) else "float32"


def set_precision(network: nn.Module, precision: Precision) -> None:
    """Set the precision in which the backbones of a network compute; its heads always compute in float32."""
    for part in network.modules():
        if isinstance(part, Backbone):
            part.precision = precision


def close_up(images: Tensor) -> Tensor:
    """Return the centres of images (N, C, H, W), enlarged by `ENLARGED` to the same size and mirrored.

    They are channels-last if the images are.
    """
    height, width = images.shape[-2:]
    inner_height, inner_width = max(1, round(height / ENLARGED)), max(1, round(width / ENLARGED))
    top, left = (height - inner_height) // 2, (width - inner_width) // 2
    # A copy of the centre, one channel after the other: so the resize gives the same values in half of the time.
    centre = images[..., top : top + inner_height, left : left + inner_width].contiguous()
    enlarged = nn.functional.interpolate(centre, size=(height, width), mode="bicubic", align_corners=False).flip(-1)
    is_last = not images.is_contiguous() and images.is_contiguous(memory_format=torch.channels_last)
    return enlarged.contiguous(memory_format=torch.channels_last) if is_last else enlarged


def features_of_views(
    layers: nn.Module, images: Tensor, has_close_up: bool, enlarge: Callable[[Tensor], Tensor] = close_up
) -> Tensor:
    """Return the features (N, V, F) of one or two views of images (N, C, H, W)."""
    each = (images, enlarge(images)) if has_close_up else (images,)
    return torch.stack([layers(view) for view in each], dim=1)


class MeanPool(nn.Module):
    """(N, F, H, W) -> (N, F): the mean over the pixels."""

    def forward(self, maps: Tensor) -> Tensor:
        return maps.mean(dim=(2, 3))


def as_colour(images: Tensor) -> Tensor:
    """Return images (N, C, H, W) with three channels; the one channel of grey images is repeated."""
    return images.expand(-1, 3, -1, -1) if images.shape[1] == 1 else images
