"""Views on a CPU, in machine code: one after another, each finished while its pixels are in the cache.

Calls on tensors go through all views for each thing that is done, and most of their time is memory. Here an operation
is a plain loop over one image, compiled by numba when it is first needed (seconds, once an installation) and free of
Python's lock, so that training goes on beside it. The views are those of `semco.data.augment.tensors`, bit for bit.

NOTE: numba keeps machine code until the file it was made of changes. So the compiled functions use nothing from other
files of this package: what is defined there comes in as an argument. Kept code is for one set of types: float32.

Shapes: N images, C channels (1 or 3), M views, k operations a view, H height, W width.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, cast

import numba
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from semco.data.augment.draws import StrongDraws, WeakDraws, cut_bounds
from semco.data.augment.geometry import FIXED, matrices
from semco.data.augment.operations import GREY, OPERATIONS, Move

Bytes = NDArray[np.uint8]
Ints = NDArray[np.int64]
Floats = NDArray[np.float32]
SOURCE = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:16]
P = ParamSpec("P")
R = TypeVar("R")

# Operations by number. The first change the table alone, those from AUTOCONTRAST on must see the pixels as they stand,
# those from COLOR on change them; a move is told by its matrix.
IDENTITY, BRIGHTNESS, POSTERIZE, SOLARIZE, AUTOCONTRAST, CONTRAST, EQUALIZE, COLOR, SHARPNESS, MOVE = range(10)
NUMBER = {
    "identity": IDENTITY,
    "brightness": BRIGHTNESS,
    "posterize": POSTERIZE,
    "solarize": SOLARIZE,
    "autocontrast": AUTOCONTRAST,
    "contrast": CONTRAST,
    "equalize": EQUALIZE,
    "color": COLOR,
    "sharpness": SHARPNESS,
}
KIND = torch.tensor([MOVE if isinstance(each, Move) else NUMBER[each.name] for each in OPERATIONS])


def paint(images: Tensor, crops: WeakDraws, draws: StrongDraws, cutout: float, table: Tensor, out: Tensor) -> None:
    """What `semco.data.augment.tensors.paint` says."""
    size = (images.shape[2], images.shape[3])
    drawn = (KIND[draws.operation], draws.magnitude, matrices(draws, size), cut_bounds(draws, cutout, size))
    given = (images, crops.top, crops.left, crops.flip, *drawn, table.float())
    floats = out if out.dtype == torch.float32 and out.is_contiguous() else torch.empty(out.shape)
    _run(FIXED, GREY, *(each.contiguous().numpy() for each in given), floats.numpy())
    if floats is not out:
        out.copy_(floats)  # exact: the table held floats of the type of ``out``


def _compiled(function: Callable[P, R]) -> Callable[P, R]:
    return cast(Callable[P, R], numba.njit(function, nogil=True, error_model="numpy"))


def kept(function: Callable[P, R]) -> Callable[P, R]:
    """Compiled, and kept in a file for the next process; by a name of its own for each state of this source."""
    function.__qualname__ += f"_{SOURCE}"
    try:
        return cast(Callable[P, R], numba.njit(function, nogil=True, error_model="numpy", cache=True))
    except RuntimeError:  # there is no folder to keep it in: each process makes its own
        return _compiled(function)


def _run(*arguments: Any) -> None:
    """`_paint`, also where what was kept of it is damaged, or cannot be written; the next process keeps it anew."""
    try:
        _ways[0](*arguments)
    except Exception:  # numba's, whichever; compiled code raises none, and what is wrong with it comes again below
        if len(_ways) == 1:
            raise
        _forget(_ways.pop(0))
        _run(*arguments)


def _forget(way: Any) -> None:
    folder = way.stats.cache_path
    with suppress(OSError):
        for file in Path(folder).glob(f"*{SOURCE}*") if folder else ():
            file.unlink()


def _paint(
    digits: int,
    grey: int,
    images: Bytes,
    top: Ints,
    left: Ints,
    flip: NDArray[np.bool_],
    kind: Ints,
    magnitude: NDArray[np.float64],
    matrix: NDArray[np.int32],
    cut: Ints,
    normalised: Floats,
    out: Floats,
) -> None:
    """Views of all images in turn, again and again, into (M, H, W, C).

    ``kind`` and ``magnitude`` (k, M) and ``matrix`` (k, M, 6) are what a view drew, ``cut`` (M, 4) what is cut out of
    it, and ``normalised`` (C, 256) what each value becomes.
    """
    pixels = np.empty(images.shape[1:], np.uint8)
    other = np.empty_like(pixels)
    table = np.empty((len(pixels), 256), np.uint8)
    last = np.empty_like(normalised)
    for view in range(len(out)):
        _crop(images[view % len(images)], top[view], left[view], flip[view], pixels)
        _reset(table)
        pending = False  # the table changes something
        for place in range(len(kind)):
            drawn, amount = kind[place, view], magnitude[place, view]
            if pending and drawn >= AUTOCONTRAST:
                _look_up(pixels, table)
                _reset(table)
                pending = False
            if drawn >= COLOR:
                _change_pixels(drawn, amount, matrix[place, view], digits, grey, pixels, other)
                pixels, other = other, pixels
            elif drawn != IDENTITY:
                _change_table(drawn, amount, pixels, table)
                pending = True
        _render(pixels, table, normalised, last, out[view])
        _cut_out(cut[view], normalised[:, grey], out[view])


@_compiled
def _change_table(drawn: int, amount: float, pixels: Bytes, table: Bytes) -> None:
    """What the values of ``pixels`` (C, H, W) will become, in ``table`` (C, 256)."""
    if drawn == BRIGHTNESS:
        _brightness(np.float32(amount), table)
    elif drawn == POSTERIZE:
        _posterize(amount, table)
    elif drawn == SOLARIZE:
        _solarize(amount, table)
    elif drawn == AUTOCONTRAST:
        _autocontrast(pixels, table)
    elif drawn == CONTRAST:
        _contrast(np.float32(amount), pixels, table)
    else:
        _equalize(pixels, table)


@_compiled
def _change_pixels(
    drawn: int, amount: float, matrix: NDArray[np.int32], digits: int, grey: int, pixels: Bytes, out: Bytes
) -> None:
    """``pixels`` (C, H, W) into others of that shape."""
    if drawn == COLOR:
        _color(np.float32(amount), pixels, out)
    elif drawn == SHARPNESS:
        _sharpness(np.float32(amount), pixels, out)
    else:
        _move(matrix, digits, grey, pixels, out)


@_compiled
def _mirror(position: int, side: int) -> int:
    """Good for less than one side beyond either edge: nothing checks what lies further away."""
    return (side - 1) - abs((side - 1) - abs(position))


@_compiled
def _crop(image: Bytes, top: int, left: int, flip: bool, out: Bytes) -> None:
    channels, height, width = image.shape
    column = np.empty(width, np.uintp)  # numba would look whether a signed index is negative
    for x in range(width):
        column[x] = _mirror((width - 1 - x if flip else x) + left, width)
    for channel in range(channels):
        for y in range(height):
            source, row = image[channel, _mirror(y + top, height)], out[channel, y]
            for x in range(width):
                row[x] = source[column[x]]


@_compiled
def _reset(table: Bytes) -> None:
    for channel in range(len(table)):
        for value in range(256):
            table[channel, value] = value


@_compiled
def _look_up(pixels: Bytes, table: Bytes) -> None:
    for channel in range(len(pixels)):
        flat, values = pixels[channel].reshape(-1), table[channel]
        for each in range(len(flat)):
            flat[each] = values[flat[each]]


@_compiled
def _render(pixels: Bytes, table: Bytes, normalised: Floats, last: Floats, out: Floats) -> None:
    """``pixels`` (C, H, W) through both tables (C, 256), which become one, into (H, W, C)."""
    channels, height, width = pixels.shape
    for channel in range(channels):
        for value in range(256):
            last[channel, value] = normalised[channel, table[channel, value]]
    for y in range(height):
        if channels == 1:
            for x in range(width):
                out[y, x, 0] = last[0, pixels[0, y, x]]
        else:
            for x in range(width):
                out[y, x, 0] = last[0, pixels[0, y, x]]
                out[y, x, 1] = last[1, pixels[1, y, x]]
                out[y, x, 2] = last[2, pixels[2, y, x]]


@_compiled
def _cut_out(bounds: Ints, fill: Floats, out: Floats) -> None:
    top, bottom, left, right = bounds[0], bounds[1], bounds[2], bounds[3]
    for y in range(top, bottom):
        for x in range(left, right):
            for channel in range(len(fill)):
                out[y, x, channel] = fill[channel]


@_compiled
def _move(matrix: NDArray[np.int32], digits: int, fill: int, pixels: Bytes, out: Bytes) -> None:
    """Pillow's nearest neighbours, by the fixed-point coefficients ``matrix`` (6,)."""
    channels, height, width = pixels.shape
    flat = pixels.reshape(channels, -1)
    a, b, c, d, e, f = matrix[0], matrix[1], matrix[2], matrix[3], matrix[4], matrix[5]
    source, inside = np.empty(width, np.uintp), np.empty(width, np.bool_)
    for y in range(height):
        for x in range(width):
            column, row = (a * x + b * y + c) >> digits, (d * x + e * y + f) >> digits
            inside[x] = 0 <= column < width and 0 <= row < height
            source[x] = row * width + column if inside[x] else 0
        for channel in range(channels):
            old, new = flat[channel], out[channel, y]
            for x in range(width):
                new[x] = old[source[x]] if inside[x] else fill


@_compiled
def _blend(start: np.float32, end: np.float32, factor: np.float32) -> np.uint8:
    """Between ``start`` (factor 0) and ``end`` (factor 1), in Pillow's 32-bit arithmetic."""
    return np.uint8((end - start) * factor + start)


@_compiled
def _grey(red: np.uint8, green: np.uint8, blue: np.uint8) -> np.int32:
    total = np.int32(red) * 19595 + np.int32(green) * 38470 + np.int32(blue) * 7471
    return np.int32((total + (1 << 15)) >> 16)


@_compiled
def _brightness(factor: np.float32, table: Bytes) -> None:
    for channel in range(len(table)):
        for value in range(256):
            table[channel, value] = _blend(np.float32(0), np.float32(table[channel, value]), factor)


@_compiled
def _posterize(bits: float, table: Bytes) -> None:
    dropped = 8 - min(int(bits), 8)
    for channel in range(len(table)):
        for value in range(256):
            table[channel, value] = (table[channel, value] >> dropped) << dropped


@_compiled
def _solarize(part: float, table: Bytes) -> None:
    for channel in range(len(table)):
        for value in range(256):
            if table[channel, value] >= 256 * part:
                table[channel, value] = 255 - table[channel, value]


@_compiled
def _autocontrast(pixels: Bytes, table: Bytes) -> None:
    for channel in range(len(table)):
        flat = pixels[channel].reshape(-1)
        low, high = flat[0], flat[0]
        for each in range(len(flat)):
            low, high = min(low, flat[each]), max(high, flat[each])
        if high > low:
            scale = 255 / (np.float64(high) - np.float64(low))
            offset = np.float64(low) * scale
            for value in range(256):
                table[channel, value] = np.uint8(min(max(value * scale - offset, 0.0), 255.0))


@_compiled
def _contrast(factor: np.float32, pixels: Bytes, table: Bytes) -> None:
    channels, height, width = pixels.shape
    total = np.int64(0)
    for y in range(height):
        if channels == 1:
            for x in range(width):
                total += pixels[0, y, x]
        else:
            for x in range(width):
                total += _grey(pixels[0, y, x], pixels[1, y, x], pixels[2, y, x])
    mean = np.float32(np.floor(total / (height * width) + 0.5))
    for channel in range(channels):
        for value in range(256):
            table[channel, value] = _blend(mean, np.float32(value), factor)


@_compiled
def _equalize(pixels: Bytes, table: Bytes) -> None:
    count = np.empty(256, np.int64)
    for channel in range(len(table)):
        flat = pixels[channel].reshape(-1)
        for value in range(256):
            count[value] = 0
        for each in range(len(flat)):
            count[flat[each]] += 1
        lightest = 255
        while not count[lightest]:
            lightest -= 1
        step = (len(flat) - count[lightest]) // 255
        if step > 0:
            below = step // 2
            for value in range(256):
                table[channel, value] = min(below // step, 255)
                below += count[value]


@_compiled
def _color(factor: np.float32, pixels: Bytes, out: Bytes) -> None:
    channels, height, width = pixels.shape
    for y in range(height):
        for x in range(width):
            if channels == 1:
                out[0, y, x] = pixels[0, y, x]
            else:
                grey = np.float32(_grey(pixels[0, y, x], pixels[1, y, x], pixels[2, y, x]))
                for channel in range(3):
                    out[channel, y, x] = _blend(grey, np.float32(pixels[channel, y, x]), factor)


@_compiled
def _sharpness(factor: np.float32, pixels: Bytes, out: Bytes) -> None:
    """The filter (1 1 1; 1 5 1; 1 1 1) / 13, rounded; edge pixels stay as they are."""
    channels, height, width = pixels.shape
    three = np.empty(width, np.int32)
    for channel in range(channels):
        for y in range(height):
            row, new = pixels[channel, y], out[channel, y]
            for x in range(width):
                new[x] = row[x]
            if y == 0 or y == height - 1:
                continue
            above, below = pixels[channel, y - 1], pixels[channel, y + 1]
            for x in range(width):
                three[x] = np.int32(above[x]) + np.int32(row[x]) + np.int32(below[x])
            for x in range(1, width - 1):
                total = three[x - 1] + three[x] + three[x + 1] + np.int32(4) * np.int32(row[x])
                smooth = np.float32(np.int32(np.float32(total) * np.float32(1 / 13) + np.float32(0.5)))
                new[x] = _blend(smooth, np.float32(row[x]), factor)


_ways: list[Callable[..., None]] = [kept(_paint), _compiled(_paint)]  # of running `_paint`, until one works
