"""Estimates how long runs of full length take on GPUs of common kinds, from published step times; nothing is run.

The operations of a step are counted layer by layer and divided by the rate that a published run has reached.
The rate is lower for small images: their layers are too small to fill a GPU, and the views have to be made.

- V100, 32 pixels: FixMatch with WRN-28-2 on CIFAR-10, 2^20 steps of 64 + 448 images, 16 hours on four
  (github.com/LeeDoYup/FixMatch-pytorch, issues 1 and 3).
- V100 and A100, 224 pixels: ResNet-50 in float32 and TF32, 367 and 938 images per second
  (NVIDIA DeepLearningExamples, PyTorch ResNet50 v1.5, single GPU).
- RTX 2080 Ti: 1000 of those FixMatch steps in 5.5 minutes (issue 8 of the same repository).
"""

from __future__ import annotations

from copy import deepcopy

import torch
from torch import Tensor, nn

from semco.config import Config
from semco.models import inspect_backbone

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
    """Return the floating-point operations of an image in the backbone's convolutions and linear layers, both ways.

    An image passes through the layers, with whatever is in memory as weights. On torch's meta device, or with its own
    counter, torch would import its compiler or a library of symbols, which takes longer.
    """
    counts: list[int] = []

    def note(layer: nn.Module, _: object, output: Tensor) -> None:
        assert isinstance(layer.weight, Tensor)
        per_channel = output.numel() // len(layer.weight)  # how often each output channel is computed
        counts.append(2 * layer.weight.numel() * per_channel)

    backbone = deepcopy(inspect_backbone(config.model, 3, size)).eval()
    weights = {name: torch.empty(each.shape, dtype=each.dtype) for name, each in backbone.state_dict().items()}
    backbone.load_state_dict(weights, assign=True)
    for part in backbone.modules():
        if isinstance(part, (nn.Conv2d, nn.Linear)):
            part.register_forward_hook(note)
    with torch.inference_mode():
        backbone(torch.zeros(1, 3, size, size))
    # Backward are the gradients of weights and of inputs; the first layer needs none of its inputs, which are images.
    return float(3 * sum(counts) - counts[0])
