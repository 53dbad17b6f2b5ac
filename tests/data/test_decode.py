"""Decoding of one image file: orientation, pixel formats, size."""

from __future__ import annotations

import os
import struct
import tracemalloc
import warnings
import zlib
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, UnidentifiedImageError

from semco.config import DataConfig
from semco.data import decode as decode_module
from semco.data.decode import (
    DECODE_ERRORS,
    decode,
    default_image_size,
    is_heic,
    read_image,
    reason_of,
    register_heic,
    to_rgb,
)
from semco.data.sources import load
from semco.errors import UserError

RNG = np.random.default_rng(0)


def saved(folder: Path, image: Image.Image, name: str = "image.png", **options: object) -> Path:
    path = folder / name
    image.save(path, **options)  # type: ignore[arg-type]
    return path


def quarters() -> Image.Image:
    """16 x 16: red, green above blue, white."""
    pixels = np.zeros((16, 16, 3), np.uint8)
    pixels[:8, :8], pixels[:8, 8:], pixels[8:, :8], pixels[8:, 8:] = (255, 0, 0), (0, 255, 0), (0, 0, 255), 255
    return Image.fromarray(pixels)


def corners(pixels: np.ndarray) -> list[tuple[int, ...]]:
    """Each corner's colour, rounded to 0 or 1, in reading order."""
    return [tuple((pixels[y, x] > 127).astype(int).tolist()) for y in (1, -2) for x in (1, -2)]


RED, GREEN, BLUE, WHITE = (1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 1, 1)


class TestGeometry:
    def test_the_same_size_is_the_same_image(self, tmp_path: Path) -> None:
        pixels = RNG.integers(0, 256, (12, 12, 3), dtype=np.uint8)
        assert np.array_equal(decode(saved(tmp_path, Image.fromarray(pixels)), 12), pixels)

    def test_the_centre_of_the_longer_side_is_kept(self, tmp_path: Path) -> None:
        pixels = RNG.integers(0, 256, (10, 16, 3), dtype=np.uint8)
        assert np.array_equal(decode(saved(tmp_path, Image.fromarray(pixels)), 10), pixels[:, 3:13])
        assert np.array_equal(
            decode(saved(tmp_path, Image.fromarray(pixels.swapaxes(0, 1))), 10), pixels.swapaxes(0, 1)[3:13]
        )

    def test_smaller_is_antialiased(self, tmp_path: Path) -> None:
        stripes = np.zeros((64, 64, 3), np.uint8)
        stripes[:, ::2] = 254
        assert np.abs(decode(saved(tmp_path, Image.fromarray(stripes)), 16)[2:-2, 2:-2].astype(int) - 127).max() <= 1

    @pytest.mark.parametrize(
        ("orientation", "expected"),
        [
            (1, [RED, GREEN, BLUE, WHITE]),
            (2, [GREEN, RED, WHITE, BLUE]),
            (3, [WHITE, BLUE, GREEN, RED]),
            (6, [BLUE, RED, WHITE, GREEN]),
            (8, [GREEN, WHITE, RED, BLUE]),
        ],
    )
    @pytest.mark.parametrize("suffix", ["jpg", "png", "webp"])
    def test_images_are_rotated_upright(
        self, tmp_path: Path, orientation: int, expected: list[tuple[int, ...]], suffix: str
    ) -> None:
        exif = Image.Exif()
        exif[0x0112] = orientation
        large = quarters().resize((128, 128), Image.Resampling.NEAREST)
        path = saved(tmp_path, large, f"image.{suffix}", exif=exif.tobytes())
        assert corners(decode(path, 16)) == expected

    def test_a_large_jpeg_looks_like_its_full_decoding(self, tmp_path: Path) -> None:
        smooth = Image.fromarray(RNG.integers(0, 256, (8, 10, 3), dtype=np.uint8)).resize((1000, 800))
        path = saved(tmp_path, smooth, "photo.jpg", quality=95)
        with Image.open(path) as full:
            whole = np.asarray(full.convert("RGB").resize((40, 32), Image.Resampling.BICUBIC))[:, 4:36]
        difference = decode(path, 32).astype(int) - whole.astype(int)
        assert np.abs(difference).mean() < 2


class TestPixelFormats:
    def test_grey(self, tmp_path: Path) -> None:
        grey = RNG.integers(0, 256, (8, 8), dtype=np.uint8)
        assert np.array_equal(decode(saved(tmp_path, Image.fromarray(grey)), 8), np.stack([grey] * 3, axis=-1))

    def test_sixteen_bits_keep_the_upper_eight(self, tmp_path: Path) -> None:
        deep = RNG.integers(0, 65536, (8, 8), dtype=np.uint16)
        expected = np.stack([(deep // 256).astype(np.uint8)] * 3, axis=-1)
        assert np.array_equal(decode(saved(tmp_path, Image.fromarray(deep)), 8), expected)

    def test_black_and_white(self, tmp_path: Path) -> None:
        dots = RNG.integers(0, 2, (8, 8), dtype=np.uint8) * 255
        image = Image.fromarray(dots).convert("1")
        assert np.array_equal(decode(saved(tmp_path, image), 8)[..., 0], dots)

    def test_transparent_parts_are_white(self, tmp_path: Path) -> None:
        pixels = np.zeros((8, 8, 4), np.uint8)
        pixels[:4] = (200, 10, 30, 255)  # the lower half is black but transparent
        decoded = decode(saved(tmp_path, Image.fromarray(pixels)), 8)
        assert (decoded[:4] == (200, 10, 30)).all()
        assert (decoded[4:] == 255).all()

    def test_palette(self, tmp_path: Path) -> None:
        image = quarters().convert("P", palette=Image.Palette.ADAPTIVE, colors=8)
        assert corners(decode(saved(tmp_path, image), 16)) == [RED, GREEN, BLUE, WHITE]

    def test_palette_with_a_transparent_colour(self, tmp_path: Path) -> None:
        image = Image.new("P", (8, 8), 0)
        image.putpalette([0, 0, 0, 255, 0, 0])
        image.paste(1, (0, 0, 8, 4))
        decoded = decode(saved(tmp_path, image, transparency=0), 8)
        assert (decoded[:4] == (255, 0, 0)).all()
        assert (decoded[4:] == 255).all()

    def test_cmyk(self, tmp_path: Path) -> None:
        large = quarters().resize((64, 64), Image.Resampling.NEAREST).convert("CMYK")
        assert corners(decode(saved(tmp_path, large, "print.jpg"), 16)) == [RED, GREEN, BLUE, WHITE]

    def test_thirty_two_bit_integers_are_clipped_to_sixteen(self) -> None:
        image = Image.fromarray(np.array([[-5, 256, 70000]], dtype=np.int32))
        assert np.asarray(to_rgb(image))[0, :, 0].tolist() == [0, 1, 255]


class TestDefaultImageSize:
    def sized(self, folder: Path, sizes: list[tuple[int, int]]) -> list[Path]:
        return [saved(folder, Image.new("L", size), f"{i}.png") for i, size in enumerate(sizes)]

    def test_median_shorter_side_as_a_multiple_of_eight(self, tmp_path: Path) -> None:
        assert default_image_size(self.sized(tmp_path, [(30, 100), (45, 45), (500, 47)])) == 48

    def test_at_most_96(self, tmp_path: Path) -> None:
        assert default_image_size(self.sized(tmp_path, [(640, 480)] * 3)) == 96

    def test_at_least_8(self, tmp_path: Path) -> None:
        assert default_image_size(self.sized(tmp_path, [(2, 2)])) == 8

    def test_unreadable_files_do_not_count(self, tmp_path: Path) -> None:
        (tmp_path / "broken.png").write_bytes(b"no")
        assert default_image_size([tmp_path / "broken.png", *self.sized(tmp_path, [(32, 32)])]) == 32
        assert default_image_size([tmp_path / "broken.png"]) == 96


@pytest.mark.parametrize("suffix", ["jpg", "png", "webp"])
def test_damaged_files_raise_decode_errors(tmp_path: Path, suffix: str) -> None:
    good = saved(tmp_path, quarters().resize((64, 64)), f"good.{suffix}").read_bytes()
    path = tmp_path / f"bad.{suffix}"
    path.write_bytes(good[: len(good) // 2])
    with pytest.raises(DECODE_ERRORS):
        decode(path, 16)
    for position in range(0, len(good), max(1, len(good) // 60)):
        content = bytearray(good)
        content[position] ^= 0x5A
        path.write_bytes(bytes(content))
        try:
            assert decode(path, 16).shape == (16, 16, 3)
        except DECODE_ERRORS:
            continue


def large_png(width: int, height: int) -> bytes:
    """Return a black PNG of one bit per pixel, which compresses to a thousandth."""
    rows = zlib.compressobj(9)
    line = bytes(1 + (width + 7) // 8)
    pixels = b"".join(rows.compress(line * 100) for _ in range(height // 100)) + rows.flush()
    chunks = [(b"IHDR", struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0)), (b"IDAT", pixels), (b"IEND", b"")]
    parts = [
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks
    ]
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


class TestRefused:
    def test_too_many_pixels_by_the_header(self, tmp_path: Path) -> None:
        path = tmp_path / "bomb.png"
        path.write_bytes(large_png(17_000, 10_000))
        assert path.stat().st_size < 30_000
        tracemalloc.start()
        with pytest.raises(ValueError, match="it has 17000 x 10000 pixels, and at most 80 million are decoded"):
            decode(path, 32)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 10_000_000

    def test_more_pixels_than_pillow_opens(self, tmp_path: Path) -> None:
        path = tmp_path / "bomb.png"
        path.write_bytes(large_png(20_000, 10_000))
        with pytest.raises(DECODE_ERRORS, match="exceeds limit"):
            decode(path, 32)

    @pytest.mark.parametrize("name", ["photo.jpg", "photo.jp2"])
    def test_a_large_jpeg_is_decoded_at_a_fraction_of_its_size(self, tmp_path: Path, name: str) -> None:
        image = quarters().resize((1000, 800), Image.Resampling.NEAREST)
        assert corners(decode(saved(tmp_path, image, name), 16, most_pixels=80_000)) == [RED, GREEN, BLUE, WHITE]
        with pytest.raises(ValueError, match="it has 1000 x 800 pixels"):
            decode(saved(tmp_path, image, "photo.png"), 16, most_pixels=80_000)

    def test_a_jpeg_2000_that_can_be_halved_once_is_halved_once(self, tmp_path: Path) -> None:
        path = tmp_path / "photo.jp2"
        quarters().resize((400, 400)).save(path, num_resolutions=2)
        assert decode(path, 16, most_pixels=40_000).shape == (16, 16, 3)
        with pytest.raises(ValueError, match="it has 400 x 400 pixels"):
            decode(path, 16, most_pixels=39_000)

    @pytest.mark.parametrize("options", [{"tile_size": (72, 72)}, {"num_resolutions": 1}])
    def test_every_jpeg_2000_is_decoded(self, tmp_path: Path, options: dict[str, object]) -> None:
        path = saved(tmp_path, quarters().resize((333, 277), Image.Resampling.NEAREST), "photo.jp2", **options)
        assert corners(decode(path, 16)) == [RED, GREEN, BLUE, WHITE]

    def test_a_deep_image_is_converted_in_blocks(self, tmp_path: Path) -> None:
        image = Image.fromarray(np.arange(3_000_000).astype(np.uint16).reshape(1000, 3000))
        path = saved(tmp_path, image)
        tracemalloc.start()
        pixels = read_image(path, 1000)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        np.testing.assert_array_equal(np.asarray(pixels)[..., 1], np.asarray(image) >> 8)
        assert peak < 12_000_000  # a copy in 64 bits has 24 MB

    def test_a_damaged_avif_named_png(self, tmp_path: Path) -> None:
        image = Image.fromarray(RNG.integers(0, 256, (64, 64, 3), dtype=np.uint8))
        content = saved(tmp_path, image, "image.avif").read_bytes()
        assert decode(saved(tmp_path, image, "image.avif"), 8).shape == (8, 8, 3)
        path = tmp_path / "image.png"
        failed = 0
        for position in range(0, len(content), 7):
            path.write_bytes(content[:position] + bytes([content[position] ^ 0x55]) + content[position + 1 :])
            try:
                decode(path, 8)
            except DECODE_ERRORS:
                failed += 1
        assert failed

    @pytest.mark.parametrize("content", [b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n", b"hello", b""])
    def test_other_formats_are_not_opened(self, tmp_path: Path, content: bytes) -> None:
        path = tmp_path / "image.png"
        path.write_bytes(content)
        with pytest.raises(ValueError, match="it is not an image in a known format"):
            decode(path, 8)

    def test_a_named_pipe_is_not_opened(self, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "pipe.png")
        with pytest.raises(ValueError, match="is a named pipe, not a regular file"):
            decode(tmp_path / "pipe.png", 8)
        assert default_image_size([tmp_path / "pipe.png"]) == 96

    def test_warnings_stay_as_they_were(self, tmp_path: Path) -> None:
        before = list(warnings.filters)
        decode(saved(tmp_path, quarters()), 8)
        assert warnings.filters == before


def damaged_tiffs(folder: Path) -> list[Path]:
    """Return TIFF files about which libtiff prints errors."""
    paths = []
    for compression in ("tiff_deflate", "tiff_lzw", "group4"):
        image = Image.fromarray(RNG.integers(0, 256, (40, 40), dtype=np.uint8))
        image = image.convert("1") if compression == "group4" else image
        path = saved(folder, image, f"{compression}.tif", compression=compression)
        with Image.open(path) as opened:
            (start,), (length,) = opened.tag_v2[273], opened.tag_v2[279]  # type: ignore[attr-defined] # of the pixels
        content = bytearray(path.read_bytes())
        content[start + 2 : start + length : 3] = b"\xff" * len(range(start + 2, start + length, 3))
        path.write_bytes(bytes(content))
        paths.append(path)
    return paths


class TestMessages:
    """Image libraries print nothing; the reason why a file cannot be read is ours to report."""

    def test_libraries_are_silent(self, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
        for path in damaged_tiffs(tmp_path):
            with suppress(*DECODE_ERRORS):
                decode(path, 8)
        assert capfd.readouterr().err == ""

    def test_pillow_does_not_warn(self, tmp_path: Path) -> None:
        content = saved(tmp_path, quarters(), "photo.tif", description=100 * "long ").read_bytes()
        path = tmp_path / "cut.tif"
        path.write_bytes(content.replace(struct.pack("<HHI", 270, 2, 501), struct.pack("<HHI", 270, 2, 50_001)))
        either = "Tag data larger than file|Truncated File Read"  # Pillow 12, Pillow 11
        with pytest.warns(UserWarning, match=either), suppress(UnidentifiedImageError), Image.open(path) as image:
            image.load()
        with warnings.catch_warnings(record=True) as caught, suppress(*DECODE_ERRORS):
            warnings.simplefilter("always")
            decode(path, 8)
        assert not caught

    @pytest.mark.parametrize("message", ["PATH is a folder.", "cannot read PATH: no permission.", "no permission"])
    def test_a_reason_has_no_path(self, message: str) -> None:
        path = Path("photos/a.png")
        reason = reason_of(UserError(message.replace("PATH", str(path))), path)
        assert str(path) not in reason
        assert reason in ("is a folder", "cannot read: no permission", "no permission")

    @pytest.mark.parametrize("name", ["a", "it", "an image", "format"])
    def test_a_name_that_is_a_word_of_the_reason_takes_nothing_from_it(self, name: str) -> None:
        reason = "it is not an image in a known format"
        assert reason_of(ValueError(reason), Path(name)) == reason


pillow_heif = pytest.importorskip("pillow_heif")


def save_heic(path: Path, grey: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    register_heic()
    Image.new("RGB", (64, 64), (grey, grey, grey)).save(path, format="HEIF", quality=90)


def test_pixels(tmp_path: Path) -> None:
    save_heic(tmp_path / "a.heic", 100)
    assert is_heic((tmp_path / "a.heic").read_bytes()[:12])
    assert np.abs(decode(tmp_path / "a.heic", 16).astype(int) - 100).max() <= 2
    (tmp_path / "broken.heic").write_bytes((tmp_path / "a.heic").read_bytes()[:200])
    with pytest.raises(decode_module.DECODE_ERRORS):
        decode(tmp_path / "broken.heic", 16)


def test_without_the_package_they_are_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_heic(tmp_path / "cat/a.heic", 100)
    for name in ("cat/b.png", "dog/c.png"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        Image.new("RGB", (16, 16)).save(tmp_path / name)
    assert len(load(DataConfig(source=str(tmp_path))).train_labels) == 3
    monkeypatch.setattr(decode_module, "register_heic", lambda: False)
    data = load(DataConfig(source=str(tmp_path)))
    assert len(data.train_labels) == 2
    assert data.skipped == (
        f"{tmp_path}/cat/a.heic (it is a HEIC photo, which needs another package: pip install 'semco[heic]')",
    )
