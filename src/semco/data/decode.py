"""Decoding of image files to square RGB images of one size; only regular files are opened.

Shapes: S height and width of the decoded image.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps, UnidentifiedImageError

from semco.data.library_messages import discard_stderr, ignore_warnings
from semco.files import open_regular

IMAGE_SUFFIXES = frozenset({".bmp", ".gif", ".jpg", ".jpeg", ".png", ".tif", ".tiff", ".webp"})
# Larger photos are reduced to this size, unless data.image_size sets another one.
LARGEST_DEFAULT = 96

# Pixels that are decoded at most, because a file of a few kilobytes can describe any number of them.
MOST_PIXELS = 80_000_000
# Formats that are read, whatever the name of the file. Other decoders of Pillow are rarely used, or run other programs.
FORMATS = ("JPEG", "PNG", "WEBP", "AVIF", "GIF", "BMP", "DIB", "TIFF", "JPEG2000", "PPM")

# Errors that Pillow raises for a file that is damaged, incomplete or not an image.
DECODE_ERRORS = (
    OSError,
    SyntaxError,
    ValueError,
    EOFError,
    LookupError,
    ArithmeticError,
    AssertionError,
    AttributeError,
    TypeError,
    RuntimeError,
    MemoryError,
    struct.error,
    zlib.error,
    Image.DecompressionBombError,
)
PRINTING = ("TIFF",)  # formats whose library prints errors to stderr


def decode(path: Path, size: int) -> NDArray[np.uint8]:
    """Return the upright image in RGB, (S, S, 3): the shorter side is resized to ``size`` pixels, the centre kept."""
    with _open_image(path) as file:
        # JPEG files can be decoded at 1/2, 1/4 or 1/8 of their size, which is fast; twice the final size is enough
        # for smooth resizing.
        file.draft("RGB", (2 * size, 2 * size))
        if file.width * file.height > MOST_PIXELS:
            raise ValueError(
                f"it has {file.width} x {file.height} pixels, and at most {MOST_PIXELS // 10**6} million are decoded"
            )
        with discard_stderr() if file.format in PRINTING else nullcontext():
            image = to_rgb(ImageOps.exif_transpose(file))
    side = min(image.size)
    left, top = (image.width - side) / 2, (image.height - side) / 2
    box = (left, top, left + side, top + side)
    return np.asarray(image.resize((size, size), Image.Resampling.BICUBIC, box=box))


@contextmanager
def _open_image(path: Path) -> Iterator[Image.Image]:
    """Open an image file and read its header; the content decides on the format."""
    with open_regular(path) as stream, ignore_warnings():
        try:
            image = Image.open(stream, formats=FORMATS)
        except UnidentifiedImageError:
            raise ValueError("it is not an image in a known format") from None
        with image:
            yield image


def reason_of(error: BaseException, path: Path) -> str:
    """Return why an image cannot be read, without its path."""
    reason = str(error) or type(error).__name__
    return reason.removeprefix(f"{path} ").replace(f" {path}", "").removesuffix(".")


def to_rgb(image: Image.Image) -> Image.Image:
    """Return an image of any mode in RGB: transparency becomes white, 16-bit grey keeps its upper 8 bits."""
    if image.mode.startswith("I"):
        upper = np.asarray(image).astype(np.int64).clip(0, 65535) >> 8
        return Image.fromarray(upper.astype(np.uint8)).convert("RGB")
    if image.has_transparency_data:
        layer = image.convert("RGBA")
        image = Image.new("RGBA", layer.size, "white")
        image.alpha_composite(layer)
    return image.convert("RGB")


def default_image_size(paths: Sequence[Path], sample: int = 256) -> int:
    """Return the median shorter side of a sample of images, at most 96 and a multiple of 8; only headers are read."""
    step = max(1, len(paths) // sample)
    sides = [side for path in paths[::step] if (side := _shorter_side(path)) is not None]
    median = float(np.median(sides)) if sides else LARGEST_DEFAULT
    return max(8, 8 * round(min(median, LARGEST_DEFAULT) / 8))


def _shorter_side(path: Path) -> int | None:
    try:
        with _open_image(path) as image:
            return min(image.size)
    except DECODE_ERRORS:
        return None  # decoding reports it later
