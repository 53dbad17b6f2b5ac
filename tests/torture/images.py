"""Damaged images of every format that Pillow writes here, and folders of them with things that are no files."""

from __future__ import annotations

import io
import os
import socket
import struct
import zlib
from dataclasses import dataclass
from pathlib import Path
from random import Random

import numpy as np
from PIL import Image

from semco.config import DataConfig
from semco.data.decode import DECODE_ERRORS, decode
from semco.data.sources import load
from torture.attack import Attack, Case, Failure
from torture.mutations import damage

# Those that semco reads, and others whose files may carry one of its endings.
FORMATS = ("PNG", "JPEG", "GIF", "BMP", "TIFF", "WEBP", "AVIF", "ICO", "PPM", "TGA", "JPEG2000", "DDS", "QOI", "MPO")
MODES = ("RGB", "L", "P", "1", "RGBA", "LA", "CMYK", "I;16", "I", "F", "YCbCr")
ENDINGS = (".png", ".jpg", ".gif", ".bmp", ".tif", ".webp")
HUGE = (0, 1, 13_000, 40_000, 65_535, 2**31 - 1, 2**32 - 1)


@dataclass(frozen=True)
class Originals:
    files: dict[str, list[bytes]]  # by format
    bomb: bytes  # a small file of 169 million pixels

    def any_file(self, random: Random) -> tuple[str, bytes]:
        kind = random.choice(sorted(self.files))
        return kind, random.choice(self.files[kind])


def prepare(_folder: Path) -> Originals:
    files = {kind: encodings(kind) for kind in FORMATS if kind in registered()}
    return Originals({kind: found for kind, found in files.items() if found}, png_of_zeros(13_000, 13_000))


def registered() -> set[str]:
    Image.init()
    return set(Image.SAVE)


def encodings(kind: str) -> list[bytes]:
    """Return one file of this format for each mode and set of options that it can write."""
    pixels = np.random.default_rng(0).integers(0, 256, (40, 52, 3), dtype=np.uint8)
    found = []
    options = [
        {},
        {"exif": exif()},
        {"progressive": True},
        {"save_all": True, "append_images": [Image.new("RGB", (52, 40))]},
    ]
    options += [{"compression": "tiff_lzw"}, {"compression": "tiff_deflate"}, {"lossless": True}, {"transparency": 0}]
    for mode in MODES:
        image = Image.fromarray(pixels)
        image = image.convert("L").convert(mode) if mode.startswith(("I", "F")) else image.convert(mode)
        for option in options:
            stream = io.BytesIO()
            try:
                image.save(stream, kind, **option)
            except (OSError, ValueError, KeyError, SystemError, TypeError, AttributeError, RuntimeError):
                continue  # this format does not know the mode or the option
            found.append(stream.getvalue())
    return sorted(set(found))


def exif() -> bytes:
    tags = Image.Exif()
    tags[0x0112] = 6  # orientation
    return tags.tobytes()


def png_of_zeros(width: int, height: int) -> bytes:
    """Return a valid PNG in black with one bit per pixel."""
    packer = zlib.compressobj(1)
    rows = b"".join(packer.compress(bytes(1 + (width + 7) // 8)) for _ in range(height)) + packer.flush()
    header = struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0)
    parts = ((b"IHDR", header), (b"IDAT", rows), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunk(name, content) for name, content in parts)


def chunk(name: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))


def case(case: Case) -> str:
    return folder_case(case) if case.random.random() < 0.02 else file_case(case)


def file_case(case: Case) -> str:
    random = case.random
    _, data = case.originals.any_file(random)
    data = mutate(random, data, case.originals)
    path = case.folder / f"image{random.choice(ENDINGS)}"
    path.write_bytes(data)
    size = random.choice((8, 32, 96))
    try:
        pixels = decode(path, size)
    except DECODE_ERRORS:
        return "refused"
    if data == case.originals.bomb:
        raise Failure("decode unpacked an image of 169 megapixels from 20 KB")
    if pixels.shape != (size, size, 3) or pixels.dtype != np.uint8:
        raise Failure("decode returned another array", f"{pixels.shape} {pixels.dtype}")
    return "decoded"


def mutate(random: Random, data: bytes, originals: Originals) -> bytes:
    way = random.random()
    if way < 0.002:
        return originals.bomb
    if way < 0.12:
        return huge_header(random, data)
    return damage(random, data, [originals.any_file(random)[1]])


def huge_header(random: Random, data: bytes) -> bytes:
    """Write another width and height into the header, with a valid checksum where there is one."""
    width, height = random.choice(HUGE), random.choice(HUGE)
    if data.startswith(b"\x89PNG"):
        header = struct.pack(">II", width, height) + data[24:29]
        return data[:8] + chunk(b"IHDR", header) + data[33:]
    if data.startswith(b"BM"):
        return data[:18] + struct.pack("<II", width, height) + data[26:]
    if data.startswith(b"GIF"):
        return data[:6] + struct.pack("<HH", width % 65536, height % 65536) + data[10:]
    at = data.find(b"\xff\xc0") if data.startswith(b"\xff\xd8") else -1
    if at >= 0:  # the frame header of a JPEG
        return data[: at + 5] + struct.pack(">HH", height % 65536, width % 65536) + data[at + 9 :]
    small = [i for i in range(len(data) - 1) if data[i] in (40, 52) and data[i + 1] == 0]  # its size, little-endian
    for at in random.sample(small, min(2, len(small))):
        data = data[:at] + random.choice((b"\xff\xff", b"\xff\x7f", b"\x00\x00")) + data[at + 2 :]
    return data


def folder_case(case: Case) -> str:
    """A folder of two classes with a damaged image and a pipe, a device, a socket, a folder or a link among them."""
    random = case.random
    for name in ("cat", "dog"):
        (case.folder / "photos" / name).mkdir(parents=True)
        for i in range(2):
            Image.new("RGB", (16, 16), random.randrange(2**24)).save(case.folder / "photos" / name / f"{i}.png")
    place = case.folder / "photos" / random.choice(("cat", "dog", "."))
    odd = place / f"odd{random.choice(ENDINGS)}"
    way = random.choice(("pipe", "device", "socket", "folder", "dangling", "loop", "not text"))
    if way == "pipe":
        os.mkfifo(odd)
    elif way == "device":
        odd.symlink_to(random.choice(("/dev/zero", "/dev/tty", "/dev/null", "/dev/urandom")))
    elif way == "socket":
        os.chdir(place)
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(odd.name)
    elif way == "folder":
        odd.mkdir()
    elif way == "dangling":
        odd.symlink_to("nothing")
    elif way == "loop":
        odd.symlink_to(odd.name)
    else:
        Path(os.fsdecode(os.fsencode(place) + b"/caf\xe9.png")).write_bytes(case.originals.files["PNG"][0])
    (place / "damaged.png").write_bytes(damage(random, case.originals.any_file(random)[1]))
    dataset = load(DataConfig(source=str(case.folder / "photos")))
    if not 4 <= len(dataset.train_images) <= 6:
        raise Failure("a folder lost images", f"{len(dataset.train_images)} were read")
    return "loaded"


ATTACK = Attack("images", cases=10_000, minutes=2, case=case, prepare=prepare, memory=1 << 30)
