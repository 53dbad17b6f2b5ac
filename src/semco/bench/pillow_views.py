"""Weak and strong views made the usual way: one image at a time, one Pillow call after another.

It takes the choices of `semco.data.augment.draws`, as plain numbers, so that it makes the very views that the batched
code makes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageEnhance, ImageOps

from semco.data.augment.draws import StrongDraws, WeakDraws
from semco.data.augment.operations import GREY, OPERATIONS

Picture = Image.Image


@dataclass(frozen=True)
class Choice:
    """What was drawn for one view."""

    top: int
    left: int
    flip: bool
    operations: list[tuple[str, float]]
    cut_y: int
    cut_x: int


def choices(weak: WeakDraws, strong: StrongDraws) -> list[Choice]:
    """One `Choice` for each of M views."""
    names = [[OPERATIONS[code].name for code in row] for row in strong.operation.T.tolist()]
    operations = [list(zip(*each, strict=True)) for each in zip(names, strong.magnitude.T.tolist(), strict=True)]
    columns = (weak.top, weak.left, weak.flip), (strong.cut_y, strong.cut_x)
    before, after = ([each.tolist() for each in group] for group in columns)
    return [Choice(*row) for row in zip(*before, operations, *after, strict=True)]


def weak_view(image: NDArray[np.uint8], choice: Choice) -> NDArray[np.uint8]:
    """``image`` (H, W) or (H, W, 3) padded by reflection, cropped and flipped."""
    height, width = image.shape[:2]
    y, x = abs(choice.top), abs(choice.left)
    padded = np.pad(image, [(y, y), (x, x), (0, 0)][: image.ndim], mode="reflect")
    crop = padded[y + choice.top :, x + choice.left :][:height, :width]
    return np.ascontiguousarray(crop[:, ::-1] if choice.flip else crop)


def strong_view(image: NDArray[np.uint8], choice: Choice, cutout: float) -> NDArray[np.uint8]:
    """The drawn operations on a weak view, then Cutout."""
    picture = Image.fromarray(image)
    for name, magnitude in choice.operations:
        picture = APPLY[name](picture, magnitude)
    width, height = picture.size
    tall, wide = round(cutout * height), round(cutout * width)
    top, left = choice.cut_y - tall // 2, choice.cut_x - wide // 2
    picture.paste(_fill(picture), (left, top, left + wide, top + tall))
    return np.asarray(picture)


def _fill(picture: Picture) -> int | tuple[int, ...]:
    return GREY if picture.mode == "L" else (GREY, GREY, GREY)


def _affine(picture: Picture, matrix: tuple[float, ...]) -> Picture:
    return picture.transform(picture.size, Image.Transform.AFFINE, matrix, fillcolor=_fill(picture))


APPLY: dict[str, Callable[[Picture, float], Picture]] = {
    "identity": lambda picture, _: picture,
    "rotate": lambda picture, degrees: picture.rotate(degrees, fillcolor=_fill(picture)),
    "shear_x": lambda picture, rate: _affine(picture, (1, rate, 0, 0, 1, 0)),
    "shear_y": lambda picture, rate: _affine(picture, (1, 0, 0, rate, 1, 0)),
    "translate_x": lambda picture, part: _affine(picture, (1, 0, round(part * picture.width), 0, 1, 0)),
    "translate_y": lambda picture, part: _affine(picture, (1, 0, 0, 0, 1, round(part * picture.height))),
    "brightness": lambda picture, factor: ImageEnhance.Brightness(picture).enhance(factor),
    "posterize": lambda picture, bits: ImageOps.posterize(picture, int(bits)),
    "solarize": lambda picture, part: ImageOps.solarize(picture, 256 * part),  # type: ignore[arg-type]
    "autocontrast": lambda picture, _: ImageOps.autocontrast(picture),
    "contrast": lambda picture, factor: ImageEnhance.Contrast(picture).enhance(factor),
    "equalize": lambda picture, _: ImageOps.equalize(picture),
    "color": lambda picture, factor: ImageEnhance.Color(picture).enhance(factor),
    "sharpness": lambda picture, factor: ImageEnhance.Sharpness(picture).enhance(factor),
}
