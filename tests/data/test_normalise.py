"""Normalised images: values computed by hand, memory layout, and agreement between training and evaluation."""

from __future__ import annotations

import torch

from semco.config import AugmentConfig
from semco.data.normalise import normalise_images
from semco.data.views import Augment
from semco.evaluation.results import image_batches


def test_values_by_hand() -> None:
    """With mean 0.2 and std 0.4: black is -0.5, 51 (the mean) is 0, 153 is 1, white is 2."""
    images = torch.tensor([0, 51, 153, 255], dtype=torch.uint8).view(1, 1, 2, 2)
    normalised = normalise_images(images, torch.tensor([0.2]), torch.tensor([0.4]))
    torch.testing.assert_close(normalised.flatten(), torch.tensor([-0.5, 0.0, 1.0, 2.0]))


def test_each_channel_has_its_own_mean_and_std() -> None:
    images = torch.full((2, 3, 4, 5), 102, dtype=torch.uint8)  # 0.4
    normalised = normalise_images(images, torch.tensor([0.4, 0.2, 0.0]), torch.tensor([1.0, 0.5, 0.1]))
    for channel, value in enumerate((0.0, 0.4, 4.0)):
        torch.testing.assert_close(normalised[:, channel], torch.full((2, 4, 5), value))


def test_float32_in_channels_last_memory_and_the_images_unchanged() -> None:
    images = torch.arange(2 * 3 * 4 * 5, dtype=torch.uint8).view(2, 3, 4, 5)
    normalised = normalise_images(images, torch.full((3,), 0.5), torch.full((3,), 0.25))
    assert normalised.dtype == torch.float32
    assert normalised.shape == images.shape
    assert normalised.is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(images, torch.arange(2 * 3 * 4 * 5, dtype=torch.uint8).view(2, 3, 4, 5))


def test_training_and_evaluation_see_the_same_numbers() -> None:
    images = torch.randint(0, 256, (7, 3, 8, 8), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    mean, std = (0.5, 0.4, 0.3), (0.2, 0.25, 0.3)
    plain = Augment(AugmentConfig(), torch.tensor(mean), torch.tensor(std)).plain(images)
    assert torch.equal(torch.cat(list(image_batches(images, mean, std, batch_size=3))), plain)
