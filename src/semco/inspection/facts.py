"""Facts about one image file: whether it can be read, what is unusual about it, and what it looks like."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from io import BytesIO

from PIL import Image

from semco.data.datasets import ProgressCallback
from semco.data.decode import DECODE_ERRORS, MOST_PIXELS, ORIENTATION, PRINTING, open_stream, reason_of, to_rgb, upright
from semco.data.library_messages import discard_stderr
from semco.data.listing import Entry, Part
from semco.inspection.pictures import perceptual_hash, small_picture

GIANT_PIXELS = 24_000_000  # images with more are slow to read
DRAFT_SIZE = 64  # JPEG files are decoded at the smallest size that is at least this, which is enough for the hash
BLOCK = 512  # images between two reports of progress
# What can be unusual about an image, with the meaning for people.
KINDS = {
    "unreadable": "skipped in a run",
    "truncated": "they end too early; skipped in a run",
    "giant": f"more than {GIANT_PIXELS // 10**6} million pixels; slow to read",
    "animated": "the first frame is used",
    "rotated": "turned as their EXIF data say",
    "transparent": "put on white",
    "palette": "a palette of colours; read as RGB",
    "CMYK": "colours for printing; converted to RGB",
    "16-bit": "the upper 8 bits of each channel are used",
}


@dataclass(frozen=True, slots=True)
class ImageFacts:
    """The facts about one image; those that need its pixels are empty if it cannot be read."""

    kinds: tuple[str, ...]  # keys of `KINDS`
    reason: str | None = None  # why it cannot be read
    width: int = 0  # upright
    height: int = 0
    content: bytes = b""  # checksum of the file
    look: int = 0  # perceptual hash
    small: bytes = b""  # 8 x 8 pixels

    @property
    def is_readable(self) -> bool:
        return self.reason is None


def inspect_part(part: Part, on_progress: ProgressCallback | None, work: str) -> list[ImageFacts]:
    """Return the facts about each image of a part; every file is read once, by several threads."""
    facts: list[ImageFacts] = []
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as threads:
        for start in range(0, len(part), BLOCK):
            facts += threads.map(inspect, [part[i] for i in range(start, min(start + BLOCK, len(part)))])
            if on_progress is not None:
                on_progress(work, len(facts), len(part))
    return facts


def inspect(entry: Entry) -> ImageFacts:
    """Return the facts about one image."""
    content = b""
    try:
        with entry.open() as stream:
            data = stream.read()
        content = hashlib.blake2b(data, digest_size=16).digest()
        return _inspect_bytes(data, content)
    except DECODE_ERRORS as error:
        reason = reason_of(error, entry)
        kind = "truncated" if "truncated" in reason.lower() else "unreadable"
        return ImageFacts((kind,), reason, content=content)


def _inspect_bytes(data: bytes, content: bytes) -> ImageFacts:
    with open_stream(BytesIO(data)) as file:
        width, height = file.size
        kinds = unusual_kinds(file)
        file.draft("RGB", (DRAFT_SIZE, DRAFT_SIZE))
        if file.width * file.height > MOST_PIXELS:
            raise ValueError(
                f"it has {file.width} x {file.height} pixels, and at most {MOST_PIXELS // 10**6} million are decoded"
            )
        with discard_stderr() if file.format in PRINTING else nullcontext():
            image = to_rgb(upright(file))
    if (image.width > image.height) != (width > height):
        width, height = height, width
    return ImageFacts(kinds, None, width, height, content, perceptual_hash(image), small_picture(image))


def unusual_kinds(file: Image.Image) -> tuple[str, ...]:
    """Return what is unusual about an image whose header was read, as keys of `KINDS`."""
    is_it = {
        "giant": file.width * file.height > GIANT_PIXELS,
        "animated": getattr(file, "n_frames", 1) > 1,
        "rotated": file.getexif().get(ORIENTATION, 1) in range(2, 9),
        "transparent": file.has_transparency_data,
        "palette": file.mode in ("P", "PA"),
        "CMYK": file.mode == "CMYK",
        "16-bit": file.mode.startswith("I"),
    }
    return tuple(kind for kind, found in is_it.items() if found)


def count_kinds(facts: Sequence[ImageFacts]) -> dict[str, int]:
    """Return how many images have each kind; kinds that do not occur are left out."""
    counts = {kind: sum(kind in each.kinds for each in facts) for kind in KINDS}
    return {kind: count for kind, count in counts.items() if count}
