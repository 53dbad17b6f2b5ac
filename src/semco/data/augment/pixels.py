"""Operations that use the other channels or the neighbours of a pixel; they change the pixels, not the table of values.

Every function changes ``pixels`` (C, n, P) uint8 in place. A ``factor`` (n, 1) of 1 gives the original image.

Shapes: C channels, n views, H height, W width, P = H W pixels.
"""

from __future__ import annotations

from torch import Tensor

from semco.data.augment.points import blend, to_grey


def color(pixels: Tensor, factor: Tensor, _: tuple[int, int]) -> None:
    """Blend with the grey version of the image; an image with one channel is not changed."""
    if len(pixels) > 1:
        values = pixels.float()
        pixels.copy_(blend(to_grey(values), values, factor).short())


def sharpness(pixels: Tensor, factor: Tensor, size: tuple[int, int]) -> None:
    """Blend with the image smoothed by (1 1 1; 1 5 1; 1 1 1) / 13; pixels at the edge are not changed."""
    changed = blend(_smoothed(pixels, size[1]), pixels.float(), factor).short()
    inner, new = (each.unflatten(2, size)[..., 1:-1, 1:-1] for each in (pixels, changed))
    inner.copy_(new)


def _smoothed(pixels: Tensor, width: int) -> Tensor:
    """Apply the filter to all images as one flat list of pixels; the result is valid for inner pixels only.

    Pillow rounds to the nearest integer. Multiples of 1/13 are never halfway between two integers, so every rule for
    ties gives the same result.
    """
    flat = pixels.short().view(-1)
    three = flat.clone()
    three[1:].add_(flat[:-1])
    three[:-1].add_(flat[1:])
    total = flat.mul_(4).add_(three)
    total[width:].add_(three[:-width])
    total[:-width].add_(three[width:])
    return total.float().mul_(1 / 13).round_().view(pixels.shape)
