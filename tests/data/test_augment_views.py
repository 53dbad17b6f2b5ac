"""Views as the training loop uses them: shape, memory layout, randomness, distribution of the draws."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from semco.config import AugmentConfig
from semco.data.augment import changes, geometry
from semco.data.augment.draws import draw_strong, draw_weak, padding
from semco.data.augment.operations import OPERATIONS
from semco.data.views import Augment
from semco.errors import UserError

MEAN, STD = torch.tensor([0.5, 0.4, 0.3]), torch.tensor([0.2, 0.25, 0.3])


def noise(n: int, channels: int = 3, size: tuple[int, int] = (32, 32)) -> Tensor:
    return torch.randint(0, 256, (n, channels, *size), dtype=torch.uint8, generator=torch.Generator().manual_seed(7))


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def in_bytes(channels: int = 1, **fields: object) -> Augment:
    """Return an Augment whose views have the values 0 to 255."""
    config = AugmentConfig.model_validate(fields)
    return Augment(config, torch.zeros(channels), torch.full((channels,), 1 / 255))


def chi_square(counts: Tensor) -> float:
    expected = counts.sum() / len(counts)
    return float(((counts - expected) ** 2 / expected).sum())


@pytest.mark.parametrize("size", [(32, 32), (24, 40)])
def test_views_are_floats_and_channels_last(size: tuple[int, int]) -> None:
    augment = Augment(AugmentConfig(), MEAN, STD)
    views = augment.views(noise(6, size=size), 2, 3, seeded())
    assert (len(views.weak), len(views.strong)) == (2, 3)
    for view in (*views.weak, *views.strong, augment.plain(noise(6, size=size))):
        assert view.shape == (6, 3, *size)
        assert view.dtype == torch.float32
        assert view.is_contiguous(memory_format=torch.channels_last)


def test_plain_is_normalised_by_channel() -> None:
    images = noise(3)
    expected = (images.double() / 255 - MEAN.double()[:, None, None]) / STD.double()[:, None, None]
    torch.testing.assert_close(Augment(AugmentConfig(), MEAN, STD).plain(images).double(), expected, atol=1e-5, rtol=0)


def test_a_weak_view_without_crop_and_flip_is_plain() -> None:
    augment = Augment(AugmentConfig(pad=0, flip=False), MEAN, STD)
    assert torch.equal(augment.weak(noise(5), seeded()), augment.plain(noise(5)))


def test_weak_crops_and_flips_as_drawn() -> None:
    images, config = noise(50, 3, (8, 12)), AugmentConfig(pad=0.25)
    draws = draw_weak(config, 50, (8, 12), seeded(3))
    views = Augment(config, torch.zeros(3), torch.full((3,), 1 / 255)).weak(images, seeded(3))
    padded = torch.nn.functional.pad(images.float(), (3, 3, 2, 2), mode="reflect")
    for view, image, top, left, flip in zip(views, padded, draws.top, draws.left, draws.flip, strict=True):
        crop = image[:, 2 + int(top) :, 3 + int(left) :][:, :8, :12]
        torch.testing.assert_close(view, crop.flip(2) if flip else crop, atol=1e-3, rtol=0)


@pytest.mark.parametrize(
    ("fields", "side", "pixels"),
    [
        ({}, 32, 4),
        ({}, 96, 12),
        ({"pad": 0.0}, 32, 0),
        ({"pad": 1.0}, 32, 31),
        ({"pad_pixels": 4}, 96, 4),
        ({"pad_pixels": 4, "pad": 0.0}, 32, 4),
        ({"pad_pixels": 0}, 32, 0),
        ({"pad_pixels": 4}, 5, 4),
        ({"pad_pixels": 4}, 4, 3),
        ({"pad_pixels": 100}, 3, 2),
        ({"pad_pixels": 4}, 1, 0),
    ],
)
def test_padding_is_a_part_of_the_side_or_a_number_of_pixels(fields: dict[str, float], side: int, pixels: int) -> None:
    assert padding(AugmentConfig.model_validate(fields), side) == pixels


def test_crops_of_an_image_padded_by_one_pixel() -> None:
    """By hand: 10 20 30 padded by reflection is 20 10 20 30 20, which holds three crops of three pixels."""
    images = torch.tensor([10, 20, 30], dtype=torch.uint8).expand(100, 1, 1, 3)
    views = in_bytes(pad_pixels=1, flip=False).weak(images, seeded()).round().long()
    assert {tuple(view.flatten().tolist()) for view in views} == {(20, 10, 20), (10, 20, 30), (20, 30, 20)}


def test_an_image_smaller_than_the_padding_is_padded_by_all_it_can_reflect() -> None:
    """By hand: 10 20 reflected as far as it goes is 20 10 20 10 and holds two different crops."""
    images = torch.tensor([10, 20], dtype=torch.uint8).expand(100, 1, 1, 2)
    views = in_bytes(pad_pixels=50, flip=False).weak(images, seeded()).round().long()
    assert {tuple(view.flatten().tolist()) for view in views} == {(20, 10), (10, 20)}


def test_the_same_padding_in_pixels_and_as_a_part_gives_the_same_views() -> None:
    images = noise(20)
    part, pixels = (Augment(AugmentConfig.model_validate(f), MEAN, STD) for f in ({"pad": 0.25}, {"pad_pixels": 8}))
    assert torch.equal(part.weak(images, seeded(1)), pixels.weak(images, seeded(1)))


def test_views_depend_only_on_the_generator() -> None:
    images, augment = noise(40), Augment(AugmentConfig(), MEAN, STD)
    threads = torch.get_num_threads()
    first = augment.views(images, 1, 1, seeded(1))
    torch.set_num_threads(3)
    again = augment.views(images, 1, 1, seeded(1))
    torch.set_num_threads(threads)
    assert torch.equal(first.weak[0], again.weak[0])
    assert torch.equal(first.strong[0], again.strong[0])
    assert not torch.equal(first.strong[0], augment.views(images, 1, 1, seeded(2)).strong[0])


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("size", [(12, 10), (1, 5), (5, 1), (2, 2)])
def test_views_do_not_depend_on_how_many_are_made_together(
    monkeypatch: pytest.MonkeyPatch, channels: int, size: tuple[int, int]
) -> None:
    images, augment = noise(50, channels, size), Augment(AugmentConfig(), MEAN[:channels], STD[:channels])
    together = augment.views(images, 2, 2, seeded(1))
    monkeypatch.setattr("semco.data.augment.render.BLOCK", 7 * size[0] * size[1])
    monkeypatch.setattr("semco.data.augment.randaugment.CACHED", 2 * size[0] * size[1])
    parts = augment.views(images, 2, 2, seeded(1))
    for one, other in zip((*together.weak, *together.strong), (*parts.weak, *parts.strong), strict=True):
        assert torch.equal(one, other)


def test_images_may_have_any_memory_layout() -> None:
    images, augment = noise(20), Augment(AugmentConfig(), MEAN, STD)
    expected = augment.views(images, 1, 1, seeded(1))
    views = augment.views(images.contiguous(memory_format=torch.channels_last), 1, 1, seeded(1))
    assert torch.equal(views.weak[0], expected.weak[0])
    assert torch.equal(views.strong[0], expected.strong[0])


def test_views_of_one_image_differ() -> None:
    augment, generator = Augment(AugmentConfig(), MEAN, STD), seeded()
    views = augment.views(noise(20), 2, 2, generator)
    later = augment.views(noise(20), 2, 2, generator)
    assert not torch.equal(views.weak[0], views.weak[1])
    assert not torch.equal(views.strong[0], views.strong[1])
    assert not torch.equal(views.strong[0], later.strong[0])


def test_images_are_not_changed() -> None:
    images = noise(30)
    Augment(AugmentConfig(), MEAN, STD).views(images, 1, 2, seeded())
    assert torch.equal(images, noise(30))


def test_operations_are_drawn_uniformly() -> None:
    draws = draw_strong(AugmentConfig(), 14_000, (32, 32), seeded())
    counts = draws.operation.flatten().bincount(minlength=14).double()
    assert chi_square(counts) < 34.5  # 13 degrees of freedom: p = 0.001
    pairs = (draws.operation[0] * 14 + draws.operation[1]).bincount(minlength=196).double()
    assert chi_square(pairs) < 263  # 195 degrees of freedom: p = 0.001


def test_magnitudes_are_uniform_in_their_range() -> None:
    draws = draw_strong(AugmentConfig(), 14_000, (32, 32), seeded())
    for code, each in enumerate(OPERATIONS):
        drawn = draws.magnitude[draws.operation == code]
        assert bool(((drawn >= each.low) & (drawn <= each.high)).all())
        if each.high > each.low:
            part = ((drawn - each.low) / (each.high - each.low) * 10).long().bincount(minlength=10).double()
            assert chi_square(part) < 27.9  # 9 degrees of freedom: p = 0.001


def test_the_operations_are_those_of_fixmatch() -> None:
    ranges = {each.name: (each.low, each.high) for each in OPERATIONS}
    blends, moves = (
        ("brightness", "color", "contrast", "sharpness"),
        ("shear_x", "shear_y", "translate_x", "translate_y"),
    )
    assert {ranges[name] for name in blends} == {(0.05, 0.95)}
    assert {ranges[name] for name in moves} == {(-0.3, 0.3)}
    assert (ranges["rotate"], ranges["solarize"]) == ((-30, 30), (0, 1))
    rest = {"autocontrast", "equalize", "identity", "posterize", "rotate", "solarize"}
    assert set(ranges) == {*blends, *moves, *rest}


def test_posterize_keeps_four_to_eight_bits_equally_often() -> None:
    draws = draw_strong(AugmentConfig(), 70_000, (32, 32), seeded())
    code = [each.name for each in OPERATIONS].index("posterize")
    bits = draws.magnitude[draws.operation == code].floor().long().bincount()
    assert bits[:4].sum() == 0
    assert chi_square(bits[4:].double()) < 18.5  # 4 degrees of freedom: p = 0.001
    values = torch.full((4, 1), 255, dtype=torch.uint8)
    changes.posterize(values, torch.tensor([4.0, 4.99, 6.5, 8.999], dtype=torch.float64)[:, None], (1, 1))
    assert values.flatten().tolist() == [0xF0, 0xF0, 0xFC, 0xFF]


def test_half_of_the_views_are_flipped_and_crops_are_uniform() -> None:
    draws = draw_weak(AugmentConfig(), 9_000, (32, 32), seeded())
    assert abs(float(draws.flip.double().mean()) - 0.5) < 0.02
    for offset in (draws.top, draws.left):
        assert chi_square((offset + 4).bincount(minlength=9).double()) < 26.1  # 8 degrees of freedom: p = 0.001
    assert not draw_weak(AugmentConfig(flip=False), 100, (32, 32), seeded()).flip.any()


@pytest.mark.parametrize(("size", "cutout"), [((32, 32), 0.5), ((20, 31), 0.3), ((16, 16), 1.0), ((16, 16), 0.0)])
def test_cutout_is_a_grey_rectangle_of_the_given_size_clipped_at_the_edge(size: tuple[int, int], cutout: float) -> None:
    augment = in_bytes(operations=0, pad=0, flip=False, cutout=cutout)
    views = augment.strong(torch.zeros(200, 1, *size, dtype=torch.uint8), seeded(5)).round().long()
    generator = seeded(5)
    draw_weak(augment.config, 200, size, generator)
    draws = draw_strong(augment.config, 200, size, generator)
    for view, y, x in zip(views, draws.cut_y.tolist(), draws.cut_x.tolist(), strict=True):
        lengths = []
        for centre, side in ((y, size[0]), (x, size[1])):
            length = round(cutout * side)
            start = centre - length // 2
            lengths.append(min(side, start + length) - max(0, start))
        assert int((view == 128).sum()) == lengths[0] * lengths[1]
        assert int((view == 0).sum()) == view.numel() - lengths[0] * lengths[1]


def test_empty_areas_are_changed_only_by_later_operations() -> None:
    """By hand: move by 3 of 10 columns, then invert everything; and in the other order."""
    names = [each.name for each in OPERATIONS]
    image = torch.full((1, 1, 10, 10), 200, dtype=torch.uint8)
    augment = in_bytes(operations=2, pad=0, flip=False, cutout=0)
    generator = seeded()
    for codes, empty in ((("translate_x", "solarize"), 127), (("solarize", "translate_x"), 128)):
        draws = draw_strong(augment.config, 1, (10, 10), generator)
        draws.operation.copy_(torch.tensor([[names.index(code)] for code in codes]))
        draws.magnitude.copy_(torch.tensor([[0.3 if code == "translate_x" else 0.0] for code in codes]))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("semco.data.views.draw_strong", lambda *_, drawn=draws: drawn)
            row = augment.strong(image, generator)[0, 0, 4].round().long().tolist()
        assert row == [55] * 7 + [empty] * 3


def test_rotating_back_returns_pixels_to_within_one_pixel() -> None:
    where = torch.arange(1, 1 + 32 * 32, dtype=torch.int32).view(1, 32, 32)
    zero = torch.zeros(1, dtype=torch.float64)
    moves = dict.fromkeys(("shear_x", "shear_y", "translate_x", "translate_y"), zero)
    turn = geometry.to_fixed_point(geometry.affine_coefficients({"rotate": zero + 20.0, **moves}, (32, 32)))
    back = geometry.to_fixed_point(geometry.affine_coefficients({"rotate": zero - 20.0, **moves}, (32, 32)))
    there = where.clone()
    geometry.resample(there, turn, fill=0)
    geometry.resample(there, back, fill=0)
    inner = slice(8, 24)
    moved = (there - where)[0, inner, inner]
    step = torch.tensor([row * 32 + column for row in (-1, 0, 1) for column in (-1, 0, 1)])
    assert bool(torch.isin(moved, step).all())  # nearest neighbour: at most one pixel off, and not all in their place
    assert bool((moved != 0).any())
    assert int((there == 0).sum()) > 0


@pytest.mark.parametrize(
    "images",
    [
        torch.zeros(2, 3, 8, 8),
        torch.zeros(2, 1, 8, 8, dtype=torch.uint8),
        torch.zeros(3, 8, 8, dtype=torch.uint8),
    ],
)
def test_images_that_are_not_a_uint8_batch_are_refused(images: Tensor) -> None:
    augment = Augment(AugmentConfig(), MEAN, STD)
    with pytest.raises(UserError, match="uint8"):
        augment.weak(images, seeded())


@pytest.mark.parametrize("n", [1, 2])
def test_batches_too_small_for_every_operation(n: int) -> None:
    augment, generator = Augment(AugmentConfig(), MEAN, STD), seeded()
    for _ in range(30):
        assert bool(augment.strong(noise(n, size=(9, 9)), generator).isfinite().all())
