"""Operations that map each value of a channel to another; they change a view's table of values, not its pixels.

Every function takes a table ``values`` (n, C, 256) uint8 and returns the changed table, in whole numbers. Functions
that also take pixels expect the identity table, because their pixels have already been mapped. The results equal those
of Pillow exactly: the same 32-bit (blend) or 64-bit (autocontrast) float arithmetic, then truncation.

Shapes: C channels, n views, P pixels per view.
"""

from __future__ import annotations

import torch
from torch import Tensor


def brightness(values: Tensor, factor: Tensor) -> Tensor:
    """Blend with black; a ``factor`` (n, 1, 1) of 1 gives the original."""
    return (values * factor.float()).short()


def posterize(values: Tensor, bits: Tensor) -> Tensor:
    """Keep the upper floor(``bits``) bits; ``bits`` is (n, 1, 1)."""
    dropped = (8 - bits).ceil().to(torch.uint8)
    return (values >> dropped).bitwise_left_shift_(dropped)


def solarize(values: Tensor, threshold: Tensor) -> Tensor:
    """Invert values of at least 256 * ``threshold``, which is (n, 1, 1)."""
    return values ^ (values >= threshold * 256).byte().neg_()


def autocontrast(values: Tensor, _: Tensor, pixels: Tensor) -> Tensor:
    """Stretch each channel so that the darkest and the lightest of ``pixels`` (C, n, P) become 0 and 255."""
    low, high = (end.T.unsqueeze(-1).double() for end in (pixels.amin(dim=-1), pixels.amax(dim=-1)))
    flat = high == low  # such a channel is not changed: 0 to 255 is mapped to itself
    low, high = low.masked_fill_(flat, 0), high.masked_fill_(flat, 255)
    scale = torch.full_like(low, 255) / (high - low)  # `255 / tensor` would round twice, as 255 * reciprocal
    return (values * scale).sub_(low * scale).clamp_(0, 255).short()


def contrast(values: Tensor, factor: Tensor, pixels: Tensor) -> Tensor:
    """Blend with the mean grey of ``pixels`` (C, n, P); a ``factor`` (n, 1, 1) of 1 gives the original."""
    # Integer division gives the same result on every device.
    total, count = to_grey(pixels.float()).sum(dim=-1, dtype=torch.float64).long(), pixels.shape[-1]
    mean = (2 * total + count) // (2 * count)
    return blend(mean.float().view(-1, 1, 1), values, factor).short()


def equalize(values: Tensor, _: Tensor, pixels: Tensor) -> Tensor:
    """Equalize the histogram of ``pixels`` (C, n, P) in each channel, like ``ImageOps.equalize``."""
    count = histogram(pixels)  # (n, C, 256)
    below = count.cumsum(dim=-1) - count
    lightest = pixels.amax(dim=-1).T.unsqueeze(-1)
    step = below.gather(-1, lightest.long()) // 255  # pixels of the lightest value do not count
    spread = ((below + step // 2) // step.clamp(min=1)).clamp_(max=255)
    return spread.where(step > 0, values.long())  # with fewer than 255 such pixels, no change


def histogram(pixels: Tensor) -> Tensor:
    """Return how often each of the 256 values occurs: (C, n, P) uint8 -> (n, C, 256) int64."""
    channels, n, _ = pixels.shape
    first = torch.arange(n * channels, dtype=torch.int32, device=pixels.device).mul_(256).view(n, channels)
    bins = pixels.int().add_(first.T.unsqueeze(-1))
    return torch.bincount(bins.view(-1), minlength=n * channels * 256).view(n, channels, 256)


def blend(start: Tensor, end: Tensor, factor: Tensor) -> Tensor:
    """Interpolate from ``start`` (factor 0) to ``end`` (factor 1), like ``Image.blend`` before its truncation."""
    return (end - start).mul_(factor.float()).add_(start)


def to_grey(pixels: Tensor) -> Tensor:
    """Convert to grey like Pillow, (C, n, P) float -> (n, P); its 16-bit integer weights are exact in float32."""
    if len(pixels) == 1:
        return pixels[0]
    red, green, blue = pixels.unbind()
    total = (red * 19595).add_(green, alpha=38470).add_(blue, alpha=7471)
    return total.add_(1 << 15).mul_(2**-16).floor_()
