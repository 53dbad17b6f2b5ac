"""Photos of strangers are decoded in processes that have limits."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import numpy as np
import pytest
from PIL import Image

from semco.data.decode import decode
from semco.data.listing import Entry, InMemory
from semco.export.decoding import Decoder, DecodingLimits


def encoded(image: Image.Image, name: str = "PNG") -> bytes:
    content = io.BytesIO()
    image.save(content, name)
    return content.getvalue()


@pytest.fixture(scope="module")
def decoder() -> Iterator[Decoder]:
    found = Decoder(16, DecodingLimits(megapixels=20, megabytes=100, seconds=60))
    yield found
    found.close()


def test_the_pixels_are_those_of_decode(decoder: Decoder) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (50, 70, 3)).astype(np.uint8)
    content = encoded(Image.fromarray(noise), "JPEG")
    np.testing.assert_array_equal(decoder.decode(content), decode(Entry("", InMemory(content)), 16))


def test_the_process_does_not_import_torch() -> None:
    code = "import sys, semco.export.decoding_worker; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"no photo", "it is not an image in a known format"),
        (encoded(Image.new("1", (8900, 8900))), "it has 8900 x 8900 pixels, and at most 20 million are decoded"),
        # 19 megapixels: 300 MB in four channels, while they become opaque
        (encoded(Image.new("LA", (4400, 4400))), "it needs too much memory to decode"),
    ],
)
def test_what_is_too_large_is_refused(decoder: Decoder, content: bytes, reason: str) -> None:
    assert len(content) < 200_000
    assert decoder.decode(content) == reason
    assert not isinstance(decoder.decode(encoded(Image.new("RGB", (20, 20)))), str)


def test_a_large_jpeg_2000_is_decoded_at_a_smaller_size(decoder: Decoder) -> None:
    """At its own size it has 2,600 x 2,600 pixels in four bytes per channel and buffer: more than 100 MB."""
    assert not isinstance(decoder.decode(encoded(Image.new("RGB", (2600, 2600)), "JPEG2000")), str)


def test_a_process_that_takes_too_long_is_ended_and_replaced(decoder: Decoder) -> None:
    photo = encoded(Image.new("RGB", (20, 20)))
    decoder.decode(photo)
    first = decoder._process
    assert first is not None
    os.kill(first.pid, signal.SIGSTOP)  # as if it decoded for ever
    quick = DecodingLimits(seconds=0.1)
    decoder._limits, usual = quick, decoder._limits
    try:
        assert decoder.decode(photo) == "it takes more than 0.1 seconds to decode"
    finally:
        decoder._limits = usual
    assert first.returncode == -signal.SIGKILL
    assert not isinstance(decoder.decode(photo), str)
    assert decoder._process is not None
    decoder._process.kill()  # as if a library had crashed
    assert decoder.decode(photo) == "the process that decoded it has died"
    assert not isinstance(decoder.decode(photo), str)
