"""A perceptual hash: 63 bits that stay almost the same when a photo is resized, compressed or brightened.

The bits are the signs of the low frequencies of the image, relative to their median (pHash: a discrete cosine transform
of the image in 32 x 32 grey pixels, of which the 8 x 8 lowest frequencies are kept, without the mean brightness).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from scipy.fft import dctn

GREY_SIZE, FREQUENCIES = 32, 8
SMALL_SIZE = 8  # height and width of the small picture by which candidates are compared
_POWERS = np.uint64(1) << np.arange(FREQUENCIES**2 - 1, dtype=np.uint64)


def perceptual_hash(image: Image.Image) -> int:
    """Return the hash of an image; bit i is set if frequency i + 1, row by row, is above the median."""
    grey = image.convert("L").resize((GREY_SIZE, GREY_SIZE), Image.Resampling.BOX)
    return hash_of_grey(np.asarray(grey, dtype=np.float64))


def hash_of_grey(grey: NDArray[np.float64]) -> int:
    """Return the hash of grey values (32, 32)."""
    waves = dctn(grey, norm="ortho")[:FREQUENCIES, :FREQUENCIES].ravel()[1:]
    above = waves > np.median(waves)
    return int((_POWERS * above).sum(dtype=np.uint64))


def small_picture(image: Image.Image) -> bytes:
    """Return the image in 8 x 8 pixels in RGB, as 192 bytes."""
    return image.convert("RGB").resize((SMALL_SIZE, SMALL_SIZE), Image.Resampling.BOX).tobytes()
