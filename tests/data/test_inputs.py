"""The inputs of the network: views of the images at these positions, on the device."""

from __future__ import annotations

import pytest
import torch

from semco.config import AugmentConfig
from semco.data.inputs import ImageInputs, _fit_on, images_at_a_time, move
from semco.data.normalise import normalise_images
from semco.data.views import Augment
from semco.evaluation.results import image_batches

CPU = torch.device("cpu")


def make_images() -> torch.Tensor:
    return torch.randint(0, 256, (6, 3, 8, 8), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)


def make_augment() -> Augment:
    return Augment(AugmentConfig(), torch.tensor([0.1, 0.5, 0.9]), torch.tensor([0.5, 0.25, 0.125]))


def test_plain_inputs_are_the_normalised_images() -> None:
    images, position = make_images(), torch.tensor([5, 0, 5])
    inputs = ImageInputs(images, make_augment(), CPU)
    assert inputs.shape == (3, 8, 8)
    mean, std = torch.tensor([0.1, 0.5, 0.9]), torch.tensor([0.5, 0.25, 0.125])
    expected = (images[[5, 0, 5]] / 255 - mean[:, None, None]) / std[:, None, None]
    torch.testing.assert_close(inputs.plain(position), expected, atol=1e-5, rtol=1e-5, check_stride=False)


def test_views_are_those_of_the_images_at_these_positions() -> None:
    images, augment = make_images(), make_augment()
    views = ImageInputs(images, augment, CPU).views(torch.tensor([4, 1]), 2, 1, torch.Generator().manual_seed(7))
    expected = augment.views(images[[4, 1]], 2, 1, torch.Generator().manual_seed(7))
    assert (len(views.weak), len(views.strong)) == (2, 1)
    for mine, theirs in zip((*views.weak, *views.strong), (*expected.weak, *expected.strong), strict=True):
        assert torch.equal(mine, theirs)


def test_nothing_is_copied_on_the_same_device() -> None:
    images = make_images()
    assert move(images, CPU) is images


def test_large_images_stay_in_memory_of_the_host() -> None:
    small, large = torch.empty(1, dtype=torch.uint8), torch.empty(2**30, dtype=torch.uint8, device="meta")
    assert _fit_on(large, CPU)
    assert _fit_on(small, torch.device("mps"))
    assert not _fit_on(large, torch.device("mps"))


@pytest.mark.parametrize(
    ("shape", "size"),
    [((3, 32, 32), 256), ((3, 224, 224), 39), ((3, 4096, 4096), 1), ((1280,), 256), ((9, 14, 14), 256)],
)
def test_large_images_are_evaluated_a_few_at_a_time(shape: tuple[int, ...], size: int) -> None:
    assert images_at_a_time(256, shape) == size


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
