"""The inputs of the network: views of the images at these positions, on the device."""

from __future__ import annotations

import pytest
import torch

from semco.config import AugmentConfig
from semco.data.inputs import ImageInputs, _fit_on, images_at_a_time, move
from semco.data.views import Augment

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
