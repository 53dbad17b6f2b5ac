"""Inputs of the network in training: views of images, made when they are asked for, or values computed before.

Shapes: N images, C channels, H height, W width.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Generator, Tensor

from semco.data.storage.mapped import rows_at
from semco.types import Views

# Largest part of an accelerator's free memory that the images may take.
MAX_PART_OF_FREE_MEMORY = 0.25
# Largest size of the images on devices that do not report their free memory.
MAX_BYTES = 1 << 30
# Largest number of pixels of a batch in evaluation: 39 images of 224 x 224. The first layers of a network compute up to
# a hundred numbers per pixel.
MOST_PIXELS = 2_000_000


class ViewMaker(Protocol):
    """The part of augmentation (`semco.data.views.Augment`) that inputs use."""

    def views(self, images: Tensor, weak: int, strong: int, generator: Generator) -> Views:
        """Return ``weak`` weak and ``strong`` strong views of uint8 images (N, C, H, W); ``generator`` is a CPU one."""
        ...

    def plain(self, images: Tensor) -> Tensor:
        """Return the images (N, C, H, W) normalised, without augmentation."""
        ...


class Inputs(Protocol):
    """The inputs of the network for the training images, by their position in the training set."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one input."""
        ...

    def views(self, position: Tensor, weak: int, strong: int, generator: Generator) -> Views:
        """Return weak and strong views of the images at these positions (N,), on the device."""
        ...

    def plain(self, position: Tensor) -> Tensor:
        """Return the inputs of the images at these positions (N,) without augmentation, on the device."""
        ...


class ImageInputs:
    """Views that are made of uint8 images (N, C, H, W) at every step."""

    def __init__(self, images: Tensor, augment: ViewMaker, device: torch.device) -> None:
        self._images = images.to(device) if _fit_on(images, device) else images
        self._augment, self._device = augment, device

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self._images.shape[1:])

    def views(self, position: Tensor, weak: int, strong: int, generator: Generator) -> Views:
        return self._augment.views(self._select(position), weak, strong, generator)

    def plain(self, position: Tensor) -> Tensor:
        return self._augment.plain(self._select(position))

    def _select(self, position: Tensor) -> Tensor:
        return move(rows_at(self._images, position.to(self._images.device)), self._device)


def images_at_a_time(batch_size: int, shape: Sequence[int], most_pixels: int = MOST_PIXELS) -> int:
    """Return the batch size for inputs of a shape (C, H, W) in evaluation, so that large images need little memory."""
    return max(1, min(batch_size, most_pixels // max(1, math.prod(shape[1:]))))


def move(tensor: Tensor, device: torch.device) -> Tensor:
    """Move a tensor to the device; pinned memory lets the copy to a GPU run in the background."""
    if device.type == "cuda" and tensor.device.type == "cpu":
        tensor = tensor.pin_memory()
    return tensor.to(device, non_blocking=True)


def _fit_on(images: Tensor, device: torch.device) -> bool:
    """Return whether the device can store the images and still has enough memory for training."""
    size = images.numel() * images.element_size()
    if device.type == "cpu":
        return True
    if device.type == "cuda":
        return size < MAX_PART_OF_FREE_MEMORY * torch.cuda.mem_get_info(device)[0]
    return size < MAX_BYTES
