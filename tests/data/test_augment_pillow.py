"""Every view equals the view that Pillow makes with the same random draws, value by value."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image, ImageFilter
from torch import Tensor

from benchmarks import pillow_views
from semco.config import AugmentConfig
from semco.data.augment.draws import StrongDraws, WeakDraws, draw_strong, draw_weak
from semco.data.augment.operations import OPERATIONS
from semco.data.views import Augment

SIZES = [(32, 32), (28, 28), (17, 40), (96, 64)]


def images(count: int, channels: int, size: tuple[int, int], seed: int = 0) -> Tensor:
    """Return noise, smooth images, flat ones, and ones with few or similar values: hard cases for point operations."""
    rng = np.random.default_rng(seed)
    made = rng.integers(0, 256, (count, channels, *size), dtype=np.uint8)
    for index in range(count):
        if index % 5 == 1:
            made[index] = smooth(made[index])
        elif index % 5 == 2:
            made[index] = made[index] // 8 + rng.integers(0, 200, dtype=np.uint8)
        elif index % 5 == 3:
            made[index] = np.where(made[index] < 20, made[index], 77)
    made[0, 0] = 93  # a flat channel
    return torch.from_numpy(made)


def smooth(image: NDArray[np.uint8]) -> NDArray[np.uint8]:
    blurred = [Image.fromarray(plane).filter(ImageFilter.GaussianBlur(3)) for plane in image]
    return np.stack([np.asarray(plane) for plane in blurred])


def batched(
    monkeypatch: pytest.MonkeyPatch,
    batch: Tensor,
    config: AugmentConfig,
    weak: WeakDraws,
    strong: StrongDraws,
) -> Tensor:
    """Return strong views with these draws, as uint8."""
    monkeypatch.setattr("semco.data.views.draw_weak", lambda *_: weak)
    monkeypatch.setattr("semco.data.views.draw_strong", lambda *_: strong)
    channels = batch.shape[1]
    augment = Augment(config, mean=torch.zeros(channels), std=torch.full((channels,), 1 / 255))
    return augment.strong(batch, torch.Generator()).round().to(torch.uint8)


def one_by_one(batch: Tensor, config: AugmentConfig, weak: WeakDraws, strong: StrongDraws) -> Tensor:
    """Return the same views made by Pillow (and NumPy's padding), one image at a time."""
    made = []
    for image, choice in zip(batch, pillow_views.choices(weak, strong), strict=True):
        array = np.ascontiguousarray(image.permute(1, 2, 0).squeeze(-1).numpy())
        view = pillow_views.strong_view(pillow_views.weak_view(array, choice), choice, config.cutout)
        made.append(torch.tensor(view).view(*image.shape[1:], -1).permute(2, 0, 1))
    return torch.stack(made)


def only(draws: StrongDraws, operation: int, generator: torch.Generator) -> StrongDraws:
    """Return the same draws, except that every view draws this operation."""
    each = OPERATIONS[operation]
    level = torch.rand(draws.operation.shape, dtype=torch.float64, generator=generator)
    level[:, 0], level[:, 1] = 0.0, 1 - 2**-40  # both ends of the range
    magnitude = each.low + (each.high - each.low) * level
    return dataclasses.replace(draws, operation=torch.full_like(draws.operation, operation), magnitude=magnitude)


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("operation", range(len(OPERATIONS)), ids=[each.name for each in OPERATIONS])
def test_each_operation_equals_pillow(
    monkeypatch: pytest.MonkeyPatch, operation: int, size: tuple[int, int], channels: int
) -> None:
    config = AugmentConfig(pad=0, flip=False, operations=1, cutout=0)
    generator = torch.Generator().manual_seed(operation)
    batch = images(40, channels, size, seed=operation)
    weak = draw_weak(config, len(batch), size, generator)
    strong = only(draw_strong(config, len(batch), size, generator), operation, generator)
    got = batched(monkeypatch, batch, config, weak, strong)
    assert torch.equal(got, one_by_one(batch, config, weak, strong))


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize(
    ("size", "operations"), [((32, 32), 2), ((28, 20), 2), ((33, 32), 4), ((16, 16), 8), ((8, 8), 0)]
)
def test_sequences_with_crop_flip_and_cutout_equal_pillow(
    monkeypatch: pytest.MonkeyPatch, size: tuple[int, int], operations: int, channels: int
) -> None:
    """In any order, e.g. equalize after rotate (which includes the empty corners) and rotate after equalize."""
    config = AugmentConfig(operations=operations)
    generator = torch.Generator().manual_seed(operations)
    batch = images(600, channels, size, seed=operations)
    weak = draw_weak(config, len(batch), size, generator)
    strong = draw_strong(config, len(batch), size, generator)
    got = batched(monkeypatch, batch, config, weak, strong)
    assert torch.equal(got, one_by_one(batch, config, weak, strong))
