"""Perceptual hashes and the search for duplicates, against answers by hand and a slow search."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from semco.inspection import duplicates
from semco.inspection.duplicates import find_duplicates, near_pairs
from semco.inspection.facts import ImageFacts
from semco.inspection.pictures import hash_of_grey, perceptual_hash, small_picture

GREY = bytes([128] * 192)


def facts(content: int, look: int = 0, small: bytes = GREY) -> ImageFacts:
    return ImageFacts((), None, 8, 8, bytes([content]), look, small)


def groups(images: list[ImageFacts]) -> list[tuple[tuple[int, ...], bool]]:
    return [(each.members, each.is_exact) for each in find_duplicates(images)]


def test_the_bits_are_frequencies_above_the_median() -> None:
    """Two cosine waves: frequency (0, 1) with a positive and (2, 0) with a negative sign; the median is 0."""
    x = (np.arange(32) + 0.5) * np.pi / 32
    waves = 128 + 50 * np.cos(x)[None, :] - 30 * np.cos(2 * x)[:, None]
    found = hash_of_grey(waves)
    assert found & 1  # frequency 1 is the first bit
    assert not found & (1 << (2 * 8 + 0 - 1))  # the negative one is below the median
    assert found < 2**63


def photo(seed: int, size: tuple[int, int] = (120, 90)) -> Image.Image:
    rng = np.random.default_rng(seed)
    coarse = Image.fromarray(rng.integers(0, 256, (6, 8, 3), dtype=np.uint8))
    return coarse.resize(size, Image.Resampling.BICUBIC)


def test_a_smaller_or_brighter_copy_has_almost_the_same_hash_and_another_photo_has_not() -> None:
    one, other = photo(0), photo(1)
    copies = [one.resize((60, 45)), one.point(lambda value: min(255, value + 20)), one.resize((240, 180))]
    for copy in copies:
        assert (perceptual_hash(one) ^ perceptual_hash(copy)).bit_count() <= 4
    assert (perceptual_hash(one) ^ perceptual_hash(other)).bit_count() > 15


def test_the_small_picture_is_the_mean_of_each_square() -> None:
    pixels = np.zeros((16, 16, 3), np.uint8)
    pixels[:2, :2] = [[[10, 0, 0], [20, 0, 0]], [[30, 0, 0], [40, 0, 0]]]
    small = np.frombuffer(small_picture(Image.fromarray(pixels)), np.uint8).reshape(8, 8, 3)
    assert small[0, 0].tolist() == [25, 0, 0]
    assert small[1:].max() == 0


def test_exact_and_near_copies_are_told_apart() -> None:
    images = [facts(1, 0b1111), facts(2, 0xFF << 40), facts(1, 0b1111), facts(3, 0b0111), facts(4, 0xFF << 20)]
    assert groups(images) == [((0, 2, 3), False)]
    assert groups(images[:3]) == [((0, 2), True)]
    assert groups([]) == []


@pytest.mark.parametrize(("bits", "found"), [(7, True), (8, False)])
def test_seven_bits_may_differ(bits: int, found: bool) -> None:
    """Two in each of three pieces and one in the fourth: no piece is equal."""
    places = [0, 1, 16, 17, 32, 33, 48, 49][:bits]
    assert bool(groups([facts(1), facts(2, sum(1 << place for place in places))])) is found


@pytest.mark.parametrize(
    ("small", "found"),
    [
        ([168] * 192, True),  # 40 levels brighter
        ([169] * 192, False),
        ([140, 116] * 96, True),  # 12 levels on average, no brighter
        ([141, 115] * 96, False),
    ],
)
def test_pixels_decide_about_equal_hashes(small: list[int], found: bool) -> None:
    assert bool(groups([facts(1), facts(2, small=bytes(small))])) is found


def test_unreadable_images_are_nobodys_duplicates() -> None:
    broken = ImageFacts(("unreadable",), "damaged", content=b"x")
    assert groups([broken, broken]) == []


@pytest.mark.parametrize("batch", [1, 50, 1 << 22])
def test_the_search_finds_what_a_slow_one_finds(monkeypatch: pytest.MonkeyPatch, batch: int) -> None:
    monkeypatch.setattr(duplicates, "BATCH", batch)
    rng = np.random.default_rng(0)
    looks = rng.integers(0, 2**63, 120, dtype=np.uint64)
    for i in range(60):  # neighbours of the first ones, at distances from 0 to 11
        flips = rng.choice(63, i % 12, replace=False)
        looks[60 + i] = looks[i] ^ np.uint64(sum(1 << int(bit) for bit in flips))
    small = np.zeros((120, 192), np.uint8)
    expected = {(i, j) for i in range(120) for j in range(i + 1, 120) if int(looks[i] ^ looks[j]).bit_count() <= 7}
    assert {tuple(sorted(pair)) for pair in near_pairs(looks, small).tolist()} == expected
    assert len(expected) == 40


def test_many_images_with_one_hash_do_not_take_all_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(duplicates, "MOST_EQUAL", 5)
    small = np.repeat(np.arange(0, 250, 25, dtype=np.uint8), 2)[:, None].repeat(192, 1)  # ten pairs of grey levels
    pairs = near_pairs(np.zeros(20, np.uint64), small)
    assert len(pairs) == 19  # neighbours, which are at most 25 levels apart
