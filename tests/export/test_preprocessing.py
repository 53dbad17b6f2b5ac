"""The preprocessing in exported graphs does what Pillow does."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from PIL import Image

from semco.data.decode import centre_square
from semco.export.preprocessing import Preprocessing, cubic
from semco.predict.engine import About
from semco.predict.predictor import square_to_pixels


def photo(height: int, width: int) -> np.ndarray:
    """A photo with smooth parts and edges, within the range of levels, so that no filter leaves it."""
    rng = np.random.default_rng(height * width)
    coarse = rng.integers(60, 196, (5, 6, 3)).astype(np.uint8)
    smooth = np.asarray(Image.fromarray(coarse).resize((width, height), Image.Resampling.BILINEAR))
    return np.clip(smooth.astype(int) + rng.integers(-8, 9, (height, width, 1)), 40, 215).astype(np.uint8)


@pytest.mark.parametrize(
    ("height", "width", "side"), [(60, 100, 32), (61, 100, 32), (100, 61, 32), (20, 31, 32), (97, 128, 96), (7, 9, 8)]
)
def test_resizing_as_pillow_does(height: int, width: int, side: int) -> None:
    image = photo(height, width)
    made = Preprocessing((side, side), 3, (0.0,) * 3, (1.0,) * 3).square(torch.from_numpy(image)[None])
    expected = centre_square(Image.fromarray(image), side).transpose(2, 0, 1).astype(np.float32)
    gap = np.abs(made[0].numpy() - expected)
    assert gap.max() <= 1
    assert (gap > 0).mean() < (0.005 if width >= height else 0.35)  # Pillow may take the passes in another order


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("size", [(32, 32), (24, 32), (32, 20)])
def test_photos_of_the_size_of_the_model_pass_exactly(channels: int, size: tuple[int, int]) -> None:
    image = np.random.default_rng(0).integers(0, 256, (32, 32, 3)).astype(np.uint8)
    about = About(("a", "b"), (0, 1), size, channels, "one_hot", ("one_hot",))
    mean, std = (0.3,) * channels, (0.2,) * channels
    made = Preprocessing(size, channels, mean, std)(torch.from_numpy(image)[None])
    pixels = square_to_pixels(image, about).double()
    np.testing.assert_allclose(made[0].numpy(), (pixels / 255 - 0.3) / 0.2, atol=1e-5)


def test_the_bicubic_filter() -> None:
    """Keys (1981) with a = -0.5: 1 at 0, 0 at 1 and 2, 9/16 and -1/16 halfway; shifted copies sum to 1."""
    values = cubic(torch.tensor([0.0, 0.5, -0.5, 1.0, 1.5, 2.0, 2.5]))
    np.testing.assert_allclose(values, [1, 9 / 16, 9 / 16, 0, -1 / 16, 0, 0], atol=1e-6)
    assert float(cubic(torch.tensor([-1.3, -0.3, 0.7, 1.7])).sum()) == pytest.approx(1.0, abs=1e-6)
