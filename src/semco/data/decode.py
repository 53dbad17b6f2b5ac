"""Decoding of images to square RGB images of one size.

Shapes: S height and width of the decoded image.
"""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps, UnidentifiedImageError

from semco.data.library_messages import discard_stderr, ignore_warnings
from semco.data.listing import Entry, Part, as_entry
from semco.errors import UserError

BRANDS = frozenset({b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"mif1", b"msf1"})


def is_heic(header: bytes) -> bool:
    """Return whether a file that starts with these bytes is a HEIC photo."""
    return header[4:8] == b"ftyp" and header[8:12] in BRANDS


@cache
def register_heic() -> bool:
    """Let Pillow read HEIC; return False if the package for it is not installed."""
    try:
        from pillow_heif import register_heif_opener
    except ImportError:
        return False
    register_heif_opener()
    return True


START, CODING, TILE = b"\xff\x4f\xff\x51", 0x52, 0x90  # of the codestream, coding style, first tile
HEADER = 1 << 16  # bytes in which the codestream begins
MOST = 32  # halvings that the format knows


def num_halvings(stream: BinaryIO) -> int:
    """Return how often the size of an image can be halved while it is decoded; 0 if the header does not say."""
    stream.seek(0)
    header = stream.read(HEADER)
    stream.seek(0)
    at = header.find(START) + 2
    if at < 2:
        return 0
    most = _halvings_of_tiles(header[at:])
    while at + 10 <= len(header) and header[at] == 0xFF and header[at + 1] != TILE:
        if header[at + 1] == CODING:
            return min(most, header[at + 9])
        at += 2 + int.from_bytes(header[at + 2 : at + 4], "big")
    return 0


def _halvings_of_tiles(size: bytes) -> int:
    """Return how often tiles can be halved without rounding, given the SIZ segment: Pillow fails at rounded tiles."""
    if len(size) < 38:
        return 0
    right, bottom, left, top, width, height, *offsets = struct.unpack(">8I", size[6:38])
    if left or top or any(offsets):
        return 0
    if width >= right and height >= bottom:  # one tile
        return MOST
    return max(0, min(int(side & -side).bit_length() - 1 for side in (width, height)))


def halve_while_decoding(file: Any, halvings: int) -> int:
    """Let Pillow decode an image at a size that is halved so many times; return the number of pixels then.

    The format rounds sizes up, Pillow to the nearest number, and then Pillow fails. So it gets a size that needs no
    rounding.
    """
    width, height = (-(-side >> halvings) for side in file.size)
    file.reduce = halvings
    file._size = (width << halvings, height << halvings)
    return int(width * height)


IMAGE_SUFFIXES = frozenset(
    {".avif", ".bmp", ".gif", ".heic", ".heif", ".jpg", ".jpeg", ".png", ".tif", ".tiff", ".webp"}
)
# Larger photos are reduced to this size, unless data.image_size sets another one.
LARGEST_DEFAULT = 96

# Limit on the pixels of an image, because a file of a few kilobytes can describe any number of them.
MOST_PIXELS = 80_000_000
# Formats that are read, whatever the name of the file. Other decoders of Pillow are rarely used, or run other programs.
FORMATS = ("JPEG", "PNG", "WEBP", "AVIF", "GIF", "BMP", "DIB", "TIFF", "JPEG2000", "PPM")

# JPEG files are decoded at the smallest size that is at least so many times the final one (docs/lab/data.md).
DRAFT = 1.5
# Version of the decoder, which identifies stored pixels: increase it when the pixels change.
DECODING = 2
BLOCK = 1 << 20  # pixels of 16-bit images that are converted at a time
ORIENTATION = 0x0112  # the EXIF tag

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


def decode(source: Path | Entry, size: int, most_pixels: int = MOST_PIXELS) -> NDArray[np.uint8]:
    """Return the upright image in RGB, (S, S, 3): the shorter side is resized to ``size`` pixels, the centre kept."""
    return centre_square(read_image(source, size, most_pixels), size)


def read_image(source: Path | Entry, size: int, most_pixels: int = MOST_PIXELS) -> Image.Image:
    """Return the upright image in RGB; its shorter side has at least ``size`` pixels, if the file has that many."""
    with as_entry(source).open() as stream, open_stream(stream) as file:
        width, height = file.size
        if decoded_pixels(file, stream, math.ceil(DRAFT * size)) > most_pixels:
            most = most_pixels // 10**6
            raise ValueError(f"it has {width} x {height} pixels, and at most {most} million are decoded")
        with discard_stderr() if file.format in PRINTING else nullcontext():
            return to_rgb(upright(file))


def decoded_pixels(file: Image.Image, stream: BinaryIO, side: int) -> int:
    """Let an image be decoded at a smaller size if its format can, which is fast; return the number of pixels then.

    The shorter side keeps ``side`` pixels or more. JPEG files can be decoded at 1/2, 1/4 or 1/8 of their size.
    """
    file.draft("RGB", (side, side))
    if file.format != "JPEG2000":
        return file.width * file.height
    halvings = min(num_halvings(stream), max(1, min(file.size) // side).bit_length() - 1)
    return halve_while_decoding(file, halvings) if halvings else file.width * file.height


def centre_square(image: Image.Image, size: int) -> NDArray[np.uint8]:
    """Return the centre of an image in RGB as (S, S, 3): the shorter side is resized to ``size`` pixels."""
    side = min(image.size)
    left, top = (image.width - side) / 2, (image.height - side) / 2
    box = (left, top, left + side, top + side)
    return np.asarray(image.resize((size, size), Image.Resampling.BICUBIC, box=box))


def upright(file: Image.Image) -> Image.Image:
    """Return the image turned as its EXIF data say; the others are not copied, only loaded."""
    if file.getexif().get(ORIENTATION, 1) != 1:
        return ImageOps.exif_transpose(file)
    file.load()
    return file


@contextmanager
def _open_image(source: Path | Entry) -> Iterator[Image.Image]:
    """Open an image and read its header."""
    with as_entry(source).open() as stream, open_stream(stream) as image:
        yield image


@contextmanager
def open_stream(stream: BinaryIO) -> Iterator[Image.Image]:
    """Read the header of an image from a stream; the content decides on the format."""
    with ignore_warnings():
        try:
            image = Image.open(stream, formats=_formats(stream))
        except UnidentifiedImageError:
            raise ValueError("it is not an image in a known format") from None
        with image:
            yield image


def _formats(stream: BinaryIO) -> tuple[str, ...]:
    """Return the formats that an image may have; HEIC is included if the file is HEIC and can be read."""
    header = stream.read(12)
    stream.seek(0)
    if not is_heic(header):
        return FORMATS
    if not register_heic():
        raise ValueError("it is a HEIC photo, which needs another package: pip install 'semco[heic]'")
    return ("HEIF", "AVIF")


def reason_of(error: BaseException, source: Path | Entry) -> str:
    """Return why an image cannot be read, without its name."""
    reason = str(error) or type(error).__name__
    if isinstance(error, UserError):  # of `semco.files`; in other errors a word such as "a" may only look like the name
        reason = reason.removeprefix(f"{source} ")
        if reason.startswith(f"cannot read {source}:"):
            reason = f"cannot read{reason.removeprefix(f'cannot read {source}')}"
    return reason.removesuffix(".")


def to_rgb(image: Image.Image) -> Image.Image:
    """Return an image of any mode in RGB: transparency becomes white, 16-bit grey keeps its upper 8 bits."""
    if image.mode.startswith("I"):
        return upper_bits(image).convert("RGB")
    if image.has_transparency_data:
        layer = image.convert("RGBA")
        image = Image.new("RGBA", layer.size, "white")
        image.alpha_composite(layer)
    return image if image.mode == "RGB" else image.convert("RGB")


def upper_bits(image: Image.Image) -> Image.Image:
    """Return a 16-bit image in 8 bits, a block of rows at a time: a copy of the whole one would need much memory."""
    upper = Image.new("L", image.size)
    rows = max(1, BLOCK // image.width)
    for top in range(0, image.height, rows):
        block = np.asarray(image.crop((0, top, image.width, min(top + rows, image.height))))
        upper.paste(Image.fromarray((block.clip(0, 65535) >> 8).astype(np.uint8)), (0, top))
    return upper


def default_image_size(images: Sequence[Path | Entry] | Part, sample: int = 256) -> int:
    """Return the median shorter side of a sample of images, at most 96 and a multiple of 8; only headers are read."""
    step = max(1, len(images) // sample)
    sides = [side for i in range(0, len(images), step) if (side := _shorter_side(images[i])) is not None]
    median = float(np.median(sides)) if sides else LARGEST_DEFAULT
    return max(8, 8 * round(min(median, LARGEST_DEFAULT) / 8))


def _shorter_side(source: Path | Entry) -> int | None:
    try:
        with _open_image(source) as image:
            return min(image.size)
    except DECODE_ERRORS:
        return None  # decoding reports it later
