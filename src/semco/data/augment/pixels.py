"""Operations that need the other channels or the neighbours of a pixel; they act on the pixels themselves.

Every function changes ``pixels`` (C, n, P) uint8 in place; of ``factor`` (n, 1), 1 is the original.

Shapes: C channels, n views, H height, W width, P = H W pixels.
"""

from __future__ import annotations

from torch import Tensor

from semco.data.augment.points import blend, grey


def color(pixels: Tensor, factor: Tensor, _: tuple[int, int]) -> None:
    """Blend with the grey version of the image; an image of one channel stays as it is."""
    if len(pixels) > 1:
        values = pixels.float()
        pixels.copy_(blend(grey(values), values, factor).short())


def sharpness(pixels: Tensor, factor: Tensor, size: tuple[int, int]) -> None:
    """Blend with a version smoothed by (1 1 1; 1 5 1; 1 1 1) / 13; the edge pixels stay as they are."""
    changed = blend(_smoothed(pixels, size[1]), pixels.float(), factor).short()
    inner, new = (each.unflatten(2, size)[..., 1:-1, 1:-1] for each in (pixels, changed))
    inner.copy_(new)


def _smoothed(pixels: Tensor, width: int) -> Tensor:
    """The filter over all images as one flat list of pixels; only what it says of inner pixels is meant.

    Pillow rounds to nearest in floats. Thirteenths are never halfway between two integers, so any way of rounding
    agrees.
    """
    flat = pixels.short().view(-1)
    three = flat.clone()
    three[1:].add_(flat[:-1])
    three[:-1].add_(flat[1:])
    total = flat.mul_(4).add_(three)
    total[width:].add_(three[:-width])
    total[:-width].add_(three[width:])
    return total.float().mul_(1 / 13).round_().view(pixels.shape)
