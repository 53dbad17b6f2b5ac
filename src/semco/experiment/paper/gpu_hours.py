"""Estimates how long runs of full length take on GPUs of common kinds, from published step times; nothing is run.

The operations of a step are counted on torch's meta device and divided by the rate that a published run has reached.
The rate is lower for small images: their layers are too small to fill a GPU, and the views have to be made.

- V100, 32 pixels: FixMatch with WRN-28-2 on CIFAR-10, 2^20 steps of 64 + 448 images, 16 hours on four
  (github.com/LeeDoYup/FixMatch-pytorch, issues 1 and 3).
- V100 and A100, 224 pixels: ResNet-50 in float32 and TF32, 367 and 938 images per second
  (NVIDIA DeepLearningExamples, PyTorch ResNet50 v1.5, single GPU).
- RTX 2080 Ti: 1000 of those FixMatch steps in 5.5 minutes (issue 8 of the same repository).
"""

from __future__ import annotations

import torch
from torch.utils.flop_counter import FlopCounterMode

from semco.config import Config
from semco.models import build_network

# Operations per second that a V100 reached: with 32 pixels, and with 224.
SMALL_IMAGES, LARGE_IMAGES = 3.8e12, 9.0e12
# Images with fewer pixels per side count as small.
LARGE = 128
# Speed compared with a V100.
GPUS = {"2080 Ti": 0.67, "V100": 1.0, "A100": 938 / 367}
# A view without gradient costs about a third of one with it.
NO_GRADIENT = 1 / 3


class GpuEstimate:
    """Estimates the hours of runs; the operations of every network are counted once."""

    def __init__(self) -> None:
        self._operations: dict[tuple[str, int], float] = {}

    def hours(self, config: Config) -> dict[str, float]:
        """Return the hours of a run by kind of GPU."""
        size = config.data.image_size or 32
        rate = LARGE_IMAGES if size >= LARGE else SMALL_IMAGES
        seconds = self._per_image(config, size) * gradient_images(config) * config.training.total_steps / rate
        return {gpu: seconds / speed / 3600 for gpu, speed in GPUS.items()}

    def _per_image(self, config: Config, size: int) -> float:
        key = (config.model.backbone, size)
        if key not in self._operations:
            self._operations[key] = count_operations(config, size)
        return self._operations[key]


def gradient_images(config: Config) -> float:
    """Return the cost of a step in images with gradient: labelled images, strong views, and weak views for a third."""
    return config.training.batch_size * (1 + config.training.mu * (1 + NO_GRADIENT))


def count_operations(config: Config, size: int) -> float:
    """Return the floating-point operations of an image, forward and backward."""
    images = 2  # normalisation layers need more than one
    with torch.device("meta"), FlopCounterMode(display=False) as counter:
        network = build_network(config.model, ("semantic",), 100, 128, 3, size)
        network(torch.empty(images, 3, size, size)).logits.sum().backward()
    return float(counter.get_total_flops()) / images
