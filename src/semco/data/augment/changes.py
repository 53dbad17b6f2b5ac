"""Operations that change the values of pixels; each takes all views that drew it.

Every function changes packed ``pixels`` (n, P) in place; ``amount`` is the magnitude (n, 1), float64. The results equal
those of Pillow exactly: the same 32-bit (blend) or 64-bit (autocontrast) float arithmetic, then truncation.

Shapes: C channels, n views, H height, W width, P = H W pixels per view.
"""

from __future__ import annotations

import torch
from torch import Tensor

from semco.data.augment.packed import bytes_of, pack, unpack

Size = tuple[int, int]


def brightness(pixels: Tensor, amount: Tensor, _: Size) -> None:
    """Blend with black; 1 gives the original."""
    values = bytes_of(pixels)
    values.copy_(values.float().mul_(amount.float()).short())


def posterize(pixels: Tensor, amount: Tensor, _: Size) -> None:
    """Keep the upper floor(``amount``) bits."""
    bytes_of(pixels).bitwise_and_((256 - (8 - amount).ceil().exp2()).to(torch.uint8))


def solarize(pixels: Tensor, amount: Tensor, _: Size) -> None:
    """Invert values of at least 256 * ``amount``."""
    values = bytes_of(pixels)
    wide = values.short()
    torch.ge(wide, (amount * 256).ceil().short(), out=wide)  # 0 or 1; several times as fast as a bool
    values.bitwise_xor_(wide.neg_().to(torch.uint8))


def contrast(pixels: Tensor, amount: Tensor, _: Size) -> None:
    """Blend with the mean grey of the image; 1 gives the original."""
    total, count = to_grey(torch.stack(unpack(pixels))).sum(dim=-1, keepdim=True), pixels.shape[-1]
    mean = (2 * total + count) // (2 * count)  # in integers, so that the result is the same on every device
    values = bytes_of(pixels)
    values.copy_(blend(mean.float(), values.float(), amount).short())


def color(pixels: Tensor, amount: Tensor, _: Size) -> None:
    """Blend with the grey version of the image; 1 gives the original. An image with one channel is not changed."""
    planes = torch.stack(unpack(pixels))
    if len(planes) > 1:
        pixels.copy_(pack(blend(to_grey(planes).float(), planes.float(), amount).short()))


def sharpness(pixels: Tensor, amount: Tensor, size: Size) -> None:
    """Blend with the image smoothed by (1 1 1; 1 5 1; 1 1 1) / 13; 1 gives the original. The edge is not changed."""
    values = bytes_of(pixels)
    width = values.shape[1] // size[0]
    changed = blend(_smoothed(values, width, width // size[1]), values.float(), amount).short()
    inner, new = (each.unflatten(1, (*size, -1))[:, 1:-1, 1:-1] for each in (values, changed))
    inner.copy_(new)


def _smoothed(values: Tensor, row: int, column: int) -> Tensor:
    """Apply the filter to all images as one flat list, in which neighbours are ``row`` and ``column`` elements apart.

    The result is valid for inner pixels only. Pillow rounds to the nearest integer. Multiples of 1/13 are never halfway
    between two integers, so every rule for ties gives the same result.
    """
    flat = values.short().view(-1)
    three = flat.clone()
    three[column:].add_(flat[:-column])
    three[:-column].add_(flat[column:])
    total = flat.mul_(4).add_(three)
    total[row:].add_(three[:-row])
    total[:-row].add_(three[row:])
    return total.float().mul_(1 / 13).round_().view(values.shape)


def autocontrast(pixels: Tensor, _amount: Tensor, _: Size) -> None:
    """Stretch each channel so that its darkest and lightest values become 0 and 255."""
    planes = torch.stack(unpack(pixels))
    low, high = (end.unsqueeze(-1).double() for end in (planes.amin(dim=-1), planes.amax(dim=-1)))
    flat = high == low  # such a channel is not changed: 0 to 255 is mapped to itself
    low, high = low.masked_fill_(flat, 0), high.masked_fill_(flat, 255)
    scale = torch.full_like(low, 255) / (high - low)  # `255 / tensor` would round twice, as 255 * reciprocal
    values = torch.arange(256, dtype=torch.float64, device=pixels.device)
    pixels.copy_(look_up((values * scale).sub_(low * scale).clamp_(0, 255), planes))


def equalize(pixels: Tensor, _amount: Tensor, _: Size) -> None:
    """Equalize the histogram of each channel, like ``ImageOps.equalize``."""
    planes = torch.stack(unpack(pixels))
    count = histogram(planes)  # (C, n, 256)
    below = (count.cumsum(dim=-1) - count).double()  # whole numbers: divided and rounded down exactly
    step = below.gather(-1, planes.amax(dim=-1, keepdim=True).long()).div_(255).floor_()
    spread = ((below + (step / 2).floor_()) / step.clamp(min=1)).clamp_(max=255)
    values = torch.arange(256, dtype=torch.float64, device=pixels.device)
    # The lightest value does not count. With fewer than 255 other pixels, no change.
    pixels.copy_(look_up(spread.where(step > 0, values), planes))


def histogram(planes: Tensor) -> Tensor:
    """Return how often each of the 256 values occurs: (C, n, P) uint8 -> (C, n, 256) int64."""
    size = planes.shape[:2]
    return torch.bincount(_codes(planes).view(-1), minlength=size.numel() * 256).view(*size, 256)


def look_up(table: Tensor, planes: Tensor) -> Tensor:
    """Return the values of ``table`` (C, n, 256), rounded down, at ``planes`` (C, n, P), packed (n, P)."""
    return pack(table.int().view(-1).index_select(0, _codes(planes).view(-1)).view(planes.shape))


def _codes(planes: Tensor) -> Tensor:
    """Return the place of each value in a flat table (C, n, 256), as int32."""
    first = torch.arange(planes.shape[:2].numel(), dtype=torch.int32, device=planes.device).mul_(256)
    return planes.int().add_(first.view(*planes.shape[:2], 1))


def blend(start: Tensor, end: Tensor, factor: Tensor) -> Tensor:
    """Interpolate from ``start`` (factor 0) to ``end`` (factor 1), like ``Image.blend`` before its truncation."""
    return (end - start).mul_(factor.float()).add_(start)


def to_grey(planes: Tensor) -> Tensor:
    """Convert to grey like Pillow, (C, n, P) uint8 -> (n, P) int32."""
    if len(planes) == 1:
        return planes[0].int()
    red, green, blue = planes.int().unbind()
    return red.mul_(19595).add_(green, alpha=38470).add_(blue, alpha=7471).add_(1 << 15).bitwise_right_shift_(16)
