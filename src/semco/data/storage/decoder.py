"""Decoding of many images by several threads, a chunk at a time.

Threads, not processes: Pillow decodes and resizes without the GIL, and pixels need not be sent anywhere.

Shapes: n images of a chunk, S height and width.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from semco.data.decode import DECODE_ERRORS, decode, reason_of
from semco.data.listing import Entry, Part
from semco.data.storage.chunks import Chunk
from semco.errors import UserError

# Bytes of a chunk: large enough that writing one costs little, small enough to be made again after a kill.
CHUNK_BYTES = 32 << 20
# Images that a thread decodes before it takes others.
BLOCK = 16

Pixels = NDArray[np.uint8]


class PartDecoder:
    """Decodes the images of a part; while one chunk is used, the threads decode the next.

    Use it in a ``with`` block, which ends the threads.
    """

    def __init__(self, part: Part, size: int, strict: bool = False) -> None:
        self.part, self.size = part, size
        self.chunk_rows = max(1, min(CHUNK_BYTES // (3 * size * size), len(part)))
        self._strict = strict
        self._threads = ThreadPoolExecutor(max_workers=os.cpu_count(), thread_name_prefix="semco-decode")
        self._next: tuple[int, Pixels, list[Future[Any]]] | None = None

    def __call__(self, number: int) -> Chunk:
        """Return the images (n, 3, S, S) of a chunk; the note has the positions of unreadable ones with the reasons."""
        pixels, futures = self._start(number) if self._next is None or self._next[0] != number else self._next[1:]
        self._next = (number + 1, *self._start(number + 1))
        errors = [error for future in futures for error in future.result()]
        first = number * self.chunk_rows
        skipped = [(first + i, error) for i, error in enumerate(errors) if error is not None]
        if skipped and self._strict:
            position, reason = skipped[0]
            raise UserError(
                f"image {self.part.names[position]} cannot be read ({reason}): repair it, remove it, or set "
                "data.strict to false."
            )
        rows = pixels[[error is None for error in errors]] if skipped else pixels
        return Chunk(rows, skipped or None)

    def _start(self, number: int) -> tuple[Pixels, list[Future[Any]]]:
        """Let the threads decode a chunk; return its rows and what the threads will return."""
        first, end = number * self.chunk_rows, min((number + 1) * self.chunk_rows, len(self.part))
        pixels = np.empty((max(0, end - first), 3, self.size, self.size), np.uint8)
        futures = [
            self._threads.submit(
                _decode_block,
                [self.part[i] for i in range(start, min(start + BLOCK, end))],
                pixels[start - first : start - first + BLOCK],
            )
            for start in range(first, end, BLOCK)
        ]
        return pixels, futures

    def __enter__(self) -> PartDecoder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._next = None
        self._threads.shutdown(wait=True, cancel_futures=True)


def _decode_block(entries: Sequence[Entry], rows: Pixels) -> list[str | None]:
    return [_decode_into(entry, row) for entry, row in zip(entries, rows, strict=True)]


def _decode_into(entry: Entry, row: Pixels) -> str | None:
    """Decode an image into ``row`` (3, S, S); return the error message if it cannot be read, else None."""
    try:
        row[...] = decode(entry, row.shape[-1]).transpose(2, 0, 1)
    except DECODE_ERRORS as error:
        return reason_of(error, entry)
    return None
