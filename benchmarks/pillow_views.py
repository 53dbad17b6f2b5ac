"""Weak and strong views made the usual way: one image at a time, with one Pillow call per operation.

The random draws come from `semco.data.augment.draws`, so the views are equal to those of the batched code.

Shapes: M views, H height, W width.
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
    """The random draws of one view."""

    top: int
    left: int
    flip: bool
    operations: list[tuple[str, float]]
    cut_y: int
    cut_x: int


def choices(weak: WeakDraws, strong: StrongDraws) -> list[Choice]:
    """Return the draws of M views as one `Choice` per view."""
    names = [[OPERATIONS[code].name for code in row] for row in strong.operation.T.tolist()]
    operations = [list(zip(*view, strict=True)) for view in zip(names, strong.magnitude.T.tolist(), strict=True)]
    crops = [column.tolist() for column in (weak.top, weak.left, weak.flip)]
    centres = [column.tolist() for column in (strong.cut_y, strong.cut_x)]
    return [Choice(*row) for row in zip(*crops, operations, *centres, strict=True)]


def weak_view(image: NDArray[np.uint8], choice: Choice) -> NDArray[np.uint8]:
    """Return the image (H, W) or (H, W, 3) padded by reflection, cropped and flipped."""
    height, width = image.shape[:2]
    y, x = abs(choice.top), abs(choice.left)
    padded = np.pad(image, [(y, y), (x, x), (0, 0)][: image.ndim], mode="reflect")
    crop = padded[y + choice.top :, x + choice.left :][:height, :width]
    return np.ascontiguousarray(crop[:, ::-1] if choice.flip else crop)


def strong_view(image: NDArray[np.uint8], choice: Choice, cutout: float) -> NDArray[np.uint8]:
    """Return a weak view after the drawn operations and Cutout."""
    picture = Image.fromarray(image)
    for name, magnitude in choice.operations:
        picture = APPLY[name](picture, magnitude)
    width, height = picture.size
    cut_height, cut_width = round(cutout * height), round(cutout * width)
    top, left = choice.cut_y - cut_height // 2, choice.cut_x - cut_width // 2
    picture.paste(_fill(picture), (left, top, left + cut_width, top + cut_height))
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
