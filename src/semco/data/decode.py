"""Image files as square RGB images of one size.

Shapes: S pixels a side.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

IMAGE_SUFFIXES = frozenset({".bmp", ".gif", ".jpg", ".jpeg", ".png", ".tif", ".tiff", ".webp"})
# A photo of larger sides is not looked at in more detail than this, unless image_size asks for it.
LARGEST_DEFAULT = 96

# What Pillow raises for a file that is damaged, cut short, or no image at all.
DECODE_ERRORS = (
    OSError,
    SyntaxError,
    ValueError,
    EOFError,
    IndexError,
    struct.error,
    zlib.error,
    Image.DecompressionBombError,
)


def decode(path: Path, size: int) -> NDArray[np.uint8]:
    """(S, S, 3): upright, in RGB, the shorter side resized to S pixels, the centre kept."""
    with Image.open(path) as file:
        # JPEG files decode straight to a half, quarter or eighth; twice the size keeps the resizing smooth.
        file.draft("RGB", (2 * size, 2 * size))
        upright = ImageOps.exif_transpose(file)
    image = to_rgb(upright)
    side = min(image.size)
    left, top = (image.width - side) / 2, (image.height - side) / 2
    box = (left, top, left + side, top + side)
    return np.asarray(image.resize((size, size), Image.Resampling.BICUBIC, box=box))


def to_rgb(image: Image.Image) -> Image.Image:
    """Any kind of image in RGB: transparent parts on white, 16-bit grey by its upper 8 bits."""
    if image.mode.startswith("I"):
        upper = np.asarray(image).astype(np.int64).clip(0, 65535) >> 8
        return Image.fromarray(upper.astype(np.uint8)).convert("RGB")
    if image.has_transparency_data:
        layer = image.convert("RGBA")
        image = Image.new("RGBA", layer.size, "white")
        image.alpha_composite(layer)
    return image.convert("RGB")


def default_image_size(paths: Sequence[Path], sample: int = 256) -> int:
    """The median shorter side of a sample, at most 96, as a multiple of 8; only headers are read."""
    step = max(1, len(paths) // sample)
    sides = [side for path in paths[::step] if (side := _shorter_side(path)) is not None]
    median = float(np.median(sides)) if sides else LARGEST_DEFAULT
    return max(8, 8 * round(min(median, LARGEST_DEFAULT) / 8))


def _shorter_side(path: Path) -> int | None:
    try:
        with Image.open(path) as image:
            return min(image.size)
    except DECODE_ERRORS:
        return None  # named when it comes to decoding it
