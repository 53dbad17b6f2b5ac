"""Read plain arrays in NumPy's .npy format; the header is checked against the size before memory is reserved.

NumPy's own reader reserves what the header asks for, and raises many kinds of errors for a damaged header.
"""

from __future__ import annotations

import math
import struct
import tokenize
import warnings
from dataclasses import dataclass
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

PLAIN_KINDS = "biufcUSmM"  # numbers, text and dates: everything but Python objects and records
CHUNK = 2**24

# Errors of NumPy's parser of a header that is damaged.
_HEADER_ERRORS = (
    ValueError,
    SyntaxError,
    TypeError,
    LookupError,
    AttributeError,
    OverflowError,
    MemoryError,
    RecursionError,
    struct.error,
    tokenize.TokenError,
)
_READERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}


@dataclass(frozen=True)
class NpyHeader:
    """The type and shape of a stored array, and the position of its first byte."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    order: str  # "C" or "F"
    start: int

    @property
    def num_bytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize


def read_npy(stream: IO[bytes], size: int) -> NDArray[Any]:
    """Return the array in ``stream``, which has ``size`` bytes; what is no plain array raises a `ValueError`."""
    header = read_npy_header(stream, size)
    try:
        content = np.empty(header.num_bytes, dtype=np.uint8)
    except MemoryError:
        raise ValueError(f"its {header.num_bytes / 1e9:,.1f} GB do not fit in memory") from None
    view, done = memoryview(content), 0  # type: ignore[arg-type]
    while done < len(view):
        count = stream.readinto(view[done : done + CHUNK])  # type: ignore[attr-defined]
        if not count:
            raise ValueError(f"it ends after {header.start + done} of {size} bytes")
        done += count
    return np.ndarray(header.shape, header.dtype, buffer=content, order="F" if header.order == "F" else "C")


def read_npy_header(stream: IO[bytes], size: int) -> NpyHeader:
    """Return the header of the array in ``stream``, after checking that exactly its values follow.

    A header that is damaged, or that does not describe a plain array of ``size`` bytes, raises a `ValueError`.
    """
    start = stream.tell()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about headers that Python 2 wrote
            version = npy.read_magic(stream)
            reader = _READERS.get(version)
            if reader is None:
                raise ValueError(f"version {version} of the .npy format is not read")
            shape, is_fortran, dtype = reader(stream)
    except _HEADER_ERRORS as error:
        raise ValueError(f"it is not a .npy array ({' '.join(str(error).split())[:200]})") from None
    if dtype.hasobject:
        raise ValueError("it contains Python objects")
    if dtype.kind not in PLAIN_KINDS or not dtype.itemsize:
        raise ValueError(f"its type {dtype} is not plain")
    if not all(type(length) is int and length >= 0 for length in shape):
        raise ValueError(f"its shape {shape} is not made of whole numbers")
    header = NpyHeader(dtype, shape, "F" if is_fortran else "C", stream.tell() - start)
    if header.start + header.num_bytes != size:
        raise ValueError(f"its header describes {header.start + header.num_bytes:,} bytes, but it has {size:,}")
    return header
