"""Tensors in memory-mapped files, read without holding the whole file in memory.

Pages that were read stay mapped and count as memory of the process until they are released. The functions here read
any tensor; for tensors in files they release the pages after a while. The system still keeps them in its cache.
"""

from __future__ import annotations

import math
import mmap
import os
import warnings
import weakref
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

# Bytes that are read from a file before its pages are released.
MOST_MAPPED = 64 << 20


class _Pages:
    """The pages of a file that this process has read."""

    def __init__(self, mapping: mmap.mmap, file: int) -> None:
        """``file`` is the number of the open file."""
        self._mapping, self._read, self._file = weakref.ref(mapping), 0, file

    def count(self, size: int) -> None:
        """Count bytes that were read, and release all pages when there are many."""
        self._read += size
        mapping = self._mapping()
        if self._read >= MOST_MAPPED and mapping is not None and hasattr(mmap, "MADV_DONTNEED"):
            self._read = 0
            mapping.madvise(mmap.MADV_DONTNEED)

    def read_rows(self, images: Tensor, position: Tensor) -> Tensor:
        """Return rows of a part of the file, read without mapping them: a random page may map megabytes around it."""
        rows = torch.empty((len(position), *images.shape[1:]), dtype=images.dtype)
        size = math.prod(images.shape[1:])
        buffer = rows.numpy().data.cast("B")
        start = images.storage_offset()
        for number, index in enumerate(position.tolist()):
            assert 0 <= index < len(images), index
            place = buffer[number * size : (number + 1) * size]
            if os.preadv(self._file, [place], start + index * size) != size:
                raise OSError(f"a file of pixels was shortened while it was read (row {index})")
        return rows

    def close(self) -> None:
        os.close(self._file)


# The mapped files by the address of their first byte.
_OPEN: dict[int, _Pages] = {}


def map_array(path: Path, dtype: np.dtype[Any], shape: Sequence[int]) -> NDArray[Any]:
    """Return a file as a read-only array of at least one element."""
    with path.open("rb") as stream:
        mapping = mmap.mmap(stream.fileno(), math.prod(shape) * dtype.itemsize, access=mmap.ACCESS_READ)
        file = os.dup(stream.fileno())
    array: NDArray[Any] = np.frombuffer(mapping, dtype).reshape(shape)
    address = array.ctypes.data
    _OPEN[address] = _Pages(mapping, file)
    weakref.finalize(mapping, _close, address)
    return array


def _close(address: int) -> None:
    _OPEN.pop(address).close()


def map_tensor(path: Path, shape: Sequence[int]) -> Tensor:
    """Return a file of uint8 as a tensor; writing to it would end the process."""
    array = map_array(path, np.dtype(np.uint8), shape)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns of arrays that cannot be written to
        return torch.from_numpy(array)


def count_read(array: NDArray[Any], size: int) -> None:
    """Count bytes that were read from a whole array, which `map_array` may have made."""
    pages = _OPEN.get(array.ctypes.data)
    if pages is not None:
        pages.count(size)


def is_mapped(images: Tensor) -> bool:
    """Return whether a tensor, or the one that it is a part of, is in a file."""
    return _pages(images) is not None


def rows_at(images: Tensor, position: Tensor) -> Tensor:
    """Return the rows at these positions (N,), in memory."""
    pages = _pages(images)
    is_file = pages is not None and images.is_contiguous() and images.dtype == torch.uint8 and hasattr(os, "preadv")
    return pages.read_rows(images, position) if pages is not None and is_file else images.index_select(0, position)


def in_chunks(images: Tensor, size: int) -> Iterator[Tensor]:
    """Yield the rows ``size`` at a time, without copying them."""
    for chunk in images.split(size):
        yield chunk
        _count(images, chunk)


def _count(images: Tensor, rows: Tensor) -> None:
    pages = _pages(images)
    if pages is not None:
        pages.count(rows.numel() * rows.element_size())


def _pages(images: Tensor) -> _Pages | None:
    return _OPEN.get(images.untyped_storage().data_ptr()) if images.device.type == "cpu" and _OPEN else None
