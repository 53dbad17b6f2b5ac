"""Views made on a CPU by compiled code: one after another, each finished while its pixels are in the cache.

Tensor operations process all views once per operation, and spend most of their time on memory access. Here an operation
is a plain loop over one image. numba compiles it when it is first used, which takes seconds, once per installation; it
runs without Python's global lock, so that training continues meanwhile. The views equal those of
`semco.data.augment.tensors` bit for bit.

NOTE: numba's cache is only renewed when the source file of a function changes. So the compiled functions use nothing
from other files of this package: values that are defined there are passed as arguments. The compiled functions write
float32.

Shapes: N images, C channels (1 or 3), M views, k operations per view, H height, W width.
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

from semco.data.augment.draws import StrongDraws, WeakDraws, cutout_bounds
from semco.data.augment.geometry import FIXED, affine_matrices
from semco.data.augment.operations import GREY, OPERATIONS, Move

Bytes = NDArray[np.uint8]
Ints = NDArray[np.int64]
Floats = NDArray[np.float32]
SOURCE = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:16]
P = ParamSpec("P")
R = TypeVar("R")

# Operations by number. Those before AUTOCONTRAST change only the table of values, those from AUTOCONTRAST on need the
# current pixels, and those from COLOR on change the pixels. All affine operations are MOVE; their matrices differ.
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


def render_views(
    images: Tensor, crops: WeakDraws, draws: StrongDraws, cutout: float, table: Tensor, out: Tensor
) -> None:
    """Write views to ``out``, like `semco.data.augment.tensors.render_views`."""
    size = (images.shape[2], images.shape[3])
    drawn = (KIND[draws.operation], draws.magnitude, affine_matrices(draws, size), cutout_bounds(draws, cutout, size))
    inputs = (images, crops.top, crops.left, crops.flip, *drawn, table.float())
    floats = out if out.dtype == torch.float32 and out.is_contiguous() else torch.empty(out.shape)
    _run_compiled(FIXED, GREY, *(each.contiguous().numpy() for each in inputs), floats.numpy())
    if floats is not out:
        out.copy_(floats)  # exact: the values of the table fit the type of ``out``


def _compile(function: Callable[P, R]) -> Callable[P, R]:
    return cast(Callable[P, R], numba.njit(function, nogil=True, error_model="numpy"))


def compile_with_cache(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a function and cache the result on disk; the name contains a hash of this file, so it is never stale."""
    function.__qualname__ += f"_{SOURCE}"
    try:
        return cast(Callable[P, R], numba.njit(function, nogil=True, error_model="numpy", cache=True))
    except RuntimeError:  # numba found no folder for the cache: each process compiles the function
        return _compile(function)


def _run_compiled(*arguments: Any) -> None:
    """Run `_render_all`; if its cache is damaged or cannot be written, delete the cache and compile it again."""
    try:
        _versions[0](*arguments)
    except Exception:  # any error of numba; the compiled code raises none, and an error in it would occur again below
        if len(_versions) == 1:
            raise
        _delete_cache(_versions.pop(0))
        _run_compiled(*arguments)


def is_compiled() -> bool:
    """Return whether the views can be made at once, because the code was compiled by this process or an earlier one."""
    version: Any = _versions[0]
    folder = version.stats.cache_path
    return bool(version.signatures) or (folder is not None and any(Path(folder).glob(f"*{SOURCE}*.nbc")))


def _delete_cache(version: Any) -> None:
    folder = version.stats.cache_path
    with suppress(OSError):
        for file in Path(folder).glob(f"*{SOURCE}*") if folder else ():
            file.unlink()


def _render_all(
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
    """Write views to ``out`` (M, H, W, C); view i shows image i modulo N.

    ``kind`` and ``magnitude`` (k, M) and ``matrix`` (k, M, 6) describe the operations of a view, ``cut`` (M, 4) its
    Cutout, and ``normalised`` (C, 256) is the normalised float of each value.
    """
    pixels = np.empty(images.shape[1:], np.uint8)
    other = np.empty_like(pixels)
    table = np.empty((len(pixels), 256), np.uint8)
    last = np.empty_like(normalised)
    for view in range(len(out)):
        _crop(images[view % len(images)], top[view], left[view], flip[view], pixels)
        _reset(table)
        pending = False  # whether the table differs from the identity
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
        _write_view(pixels, table, normalised, last, out[view])
        _cut_out(cut[view], normalised[:, grey], out[view])


@_compile
def _change_table(drawn: int, amount: float, pixels: Bytes, table: Bytes) -> None:
    """Apply an operation on values to ``table`` (C, 256); ``pixels`` (C, H, W) give the statistics of the image."""
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


@_compile
def _change_pixels(
    drawn: int, amount: float, matrix: NDArray[np.int32], digits: int, grey: int, pixels: Bytes, out: Bytes
) -> None:
    """Apply an operation on ``pixels`` (C, H, W) and write the result to ``out``, which has the same shape."""
    if drawn == COLOR:
        _color(np.float32(amount), pixels, out)
    elif drawn == SHARPNESS:
        _sharpness(np.float32(amount), pixels, out)
    else:
        _move(matrix, digits, grey, pixels, out)


@_compile
def _reflect(position: int, side: int) -> int:
    """Reflect a position at the edge pixels; it must be at most ``side - 1`` beyond either edge (not checked)."""
    return (side - 1) - abs((side - 1) - abs(position))


@_compile
def _crop(image: Bytes, top: int, left: int, flip: bool, out: Bytes) -> None:
    channels, height, width = image.shape
    column = np.empty(width, np.uintp)  # unsigned, so that numba does not check for negative indices
    for x in range(width):
        column[x] = _reflect((width - 1 - x if flip else x) + left, width)
    for channel in range(channels):
        for y in range(height):
            source, row = image[channel, _reflect(y + top, height)], out[channel, y]
            for x in range(width):
                row[x] = source[column[x]]


@_compile
def _reset(table: Bytes) -> None:
    for channel in range(len(table)):
        for value in range(256):
            table[channel, value] = value


@_compile
def _look_up(pixels: Bytes, table: Bytes) -> None:
    for channel in range(len(pixels)):
        flat, values = pixels[channel].reshape(-1), table[channel]
        for each in range(len(flat)):
            flat[each] = values[flat[each]]


@_compile
def _write_view(pixels: Bytes, table: Bytes, normalised: Floats, last: Floats, out: Floats) -> None:
    """Write ``pixels`` (C, H, W), mapped through both tables (C, 256), to ``out`` (H, W, C)."""
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


@_compile
def _cut_out(bounds: Ints, fill: Floats, out: Floats) -> None:
    top, bottom, left, right = bounds[0], bounds[1], bounds[2], bounds[3]
    for y in range(top, bottom):
        for x in range(left, right):
            for channel in range(len(fill)):
                out[y, x, channel] = fill[channel]


@_compile
def _move(matrix: NDArray[np.int32], digits: int, fill: int, pixels: Bytes, out: Bytes) -> None:
    """Transform by fixed-point affine coefficients ``matrix`` (6,), with the same nearest neighbours as Pillow."""
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


@_compile
def _blend(start: np.float32, end: np.float32, factor: np.float32) -> np.uint8:
    """Interpolate from ``start`` (factor 0) to ``end`` (factor 1), in Pillow's 32-bit arithmetic."""
    return np.uint8((end - start) * factor + start)


@_compile
def _grey(red: np.uint8, green: np.uint8, blue: np.uint8) -> np.int32:
    total = np.int32(red) * 19595 + np.int32(green) * 38470 + np.int32(blue) * 7471
    return np.int32((total + (1 << 15)) >> 16)


@_compile
def _brightness(factor: np.float32, table: Bytes) -> None:
    for channel in range(len(table)):
        for value in range(256):
            table[channel, value] = _blend(np.float32(0), np.float32(table[channel, value]), factor)


@_compile
def _posterize(bits: float, table: Bytes) -> None:
    dropped = 8 - min(int(bits), 8)
    for channel in range(len(table)):
        for value in range(256):
            table[channel, value] = (table[channel, value] >> dropped) << dropped


@_compile
def _solarize(part: float, table: Bytes) -> None:
    for channel in range(len(table)):
        for value in range(256):
            if table[channel, value] >= 256 * part:
                table[channel, value] = 255 - table[channel, value]


@_compile
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


@_compile
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


@_compile
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


@_compile
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


@_compile
def _sharpness(factor: np.float32, pixels: Bytes, out: Bytes) -> None:
    """Blend with the filter (1 1 1; 1 5 1; 1 1 1) / 13, rounded; pixels at the edge are not changed."""
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


# Versions of `_render_all` to try in turn: the cached one first.
_versions: list[Callable[..., None]] = [compile_with_cache(_render_all), _compile(_render_all)]
