"""Outputs of the frozen layers of a network, computed once for all steps and kept in a memory-mapped file.

For each training image the file holds the plain view, V weak and V strong views: (N, 1 + 2V, ...) float16. It is made
in chunks of images; ``progress.json`` holds a checksum of each finished chunk and is replaced after the chunk is on
disk, so that a kill at any instant costs one chunk, and a damaged chunk is noticed and made again.

Shapes: N images, V views of each kind.
"""

from __future__ import annotations

import hashlib
import math
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Generator, Tensor, nn

from semco.data.inputs import Inputs, move
from semco.data.randomness import make_generator
from semco.errors import UserError
from semco.files import cannot_write, lock, read_json_object, write_json
from semco.training.allocator import reuse_freed_memory
from semco.types import Views

DATA, PROGRESS, LOCK = "features.f16", "progress.json", ".lock"
# Images whose views are computed at a time.
CHUNK = 32
# Seconds between two looks at whether another process has finished the same file.
WAIT = 0.5

Report = Callable[[int, int], None]


@dataclass(frozen=True)
class FeatureFile:
    """Where the outputs of the frozen layers are kept, and for which images and views."""

    folder: Path
    images: int
    views: int  # of each kind
    shape: tuple[int, ...]  # of one output of the frozen layers

    @property
    def array_shape(self) -> tuple[int, ...]:
        return self.images, 1 + 2 * self.views, *self.shape

    @property
    def size(self) -> int:
        """Bytes of the file."""
        return 2 * math.prod(self.array_shape)

    @property
    def chunks(self) -> int:
        return math.ceil(self.images / CHUNK)

    def open(self) -> NDArray[np.float16]:
        """Return the file as an array, read-only."""
        return np.memmap(self.folder / DATA, np.float16, "r", shape=self.array_shape)

    def mark_used(self) -> None:
        """Record that the file was used now, for `remove_oldest`."""
        with suppress(OSError):  # a folder that cannot be written
            os.utime(self.folder / PROGRESS)

    def is_complete(self) -> bool:
        """Return whether all chunks are there and are what was computed."""
        if not (self.folder / DATA).is_file() or (self.folder / DATA).stat().st_size != self.size:
            return False
        return None not in self._intact_chunks(self.open())

    def compute(self, frozen: nn.Module, inputs: Inputs, device: torch.device, report: Report) -> None:
        """Compute the chunks that are missing; another process that computes the same file is waited for."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with self._lock():
                self._compute(frozen, inputs, device, report)
        except OSError as error:
            raise cannot_write(self.folder / DATA, error) from error

    def _compute(self, frozen: nn.Module, inputs: Inputs, device: torch.device, report: Report) -> None:
        self._reserve()
        checksums = self._intact_chunks(self.open())
        # Not through a memory map: there, a full disk would kill the process instead of raising an error.
        with (
            (self.folder / DATA).open("r+b") as stream,
            torch.inference_mode(),
            reuse_freed_memory(device) as keep_memory,
        ):
            for number in range(self.chunks):
                if checksums[number] is None:
                    outputs = self._chunk(frozen, inputs, number)
                    self._write(stream, number, outputs)
                    checksums[number] = _checksum(outputs)
                    write_json(self.folder / PROGRESS, {"checksums": checksums})
                    if number == 0:
                        keep_memory()
                report(min((number + 1) * CHUNK, self.images), self.images)

    def _reserve(self) -> None:
        """Give the file its size; a disk without room for it is a `UserError`."""
        with (self.folder / DATA).open("ab") as stream:
            # Not its size, because parts that were not written take no room yet.
            written = 512 * getattr(os.fstat(stream.fileno()), "st_blocks", 0)
            free = shutil.disk_usage(self.folder).free + written
            if self.size > free:
                raise UserError(
                    f"{self.folder} has room for {free / 1e9:.1f} GB, and the outputs of the frozen layers take "
                    f"{self.size / 1e9:.1f} GB: make room, or lower model.cached_views ({self.views})."
                )
            stream.truncate(self.size)

    def _write(self, stream: BinaryIO, number: int, outputs: NDArray[np.float16]) -> None:
        """Write the outputs of one chunk and wait until they are on disk."""
        stream.seek(number * CHUNK * self.size // self.images)
        stream.write(np.ascontiguousarray(outputs).data)
        stream.flush()
        os.fsync(stream.fileno())

    def _chunk(self, frozen: nn.Module, inputs: Inputs, number: int) -> NDArray[np.float16]:
        """Return the outputs (n, 1 + 2V, ...) for one chunk of images; the number decides the views."""
        position = torch.arange(number * CHUNK, min((number + 1) * CHUNK, self.images))
        views = inputs.views(position, self.views, self.views, make_generator(number, "features"))
        each = [inputs.plain(position), *views.weak, *views.strong]
        outputs: NDArray[np.float16] = torch.stack([frozen(view).half().cpu() for view in each], dim=1).numpy()
        return outputs

    def _intact_chunks(self, array: NDArray[np.float16]) -> list[str | None]:
        """Return the checksum of each chunk, None for those that are missing or damaged."""
        saved: list[Any] = []
        if (self.folder / PROGRESS).is_file():
            try:
                saved = read_json_object(self.folder / PROGRESS).get("checksums", [])
            except UserError:  # damaged: everything is computed again
                saved = []
        if not isinstance(saved, list) or len(saved) != self.chunks:
            return [None] * self.chunks
        return [
            checksum if checksum and checksum == _checksum(array[i * CHUNK : (i + 1) * CHUNK]) else None
            for i, checksum in enumerate(saved)
        ]

    @contextmanager
    def _lock(self) -> Iterator[None]:
        with (self.folder / LOCK).open("w") as stream:
            while not lock(stream):
                time.sleep(WAIT)
            yield


def remove_oldest(root: Path, keep: Path, most_bytes: int) -> None:
    """Delete the feature files that were used longest ago until all together take at most ``most_bytes``.

    ``keep`` and files that another process is computing are left alone.
    """
    if not root.is_dir():
        return
    used = {folder: (folder / PROGRESS).stat() for folder in root.iterdir() if (folder / PROGRESS).is_file()}
    sizes = {folder: (folder / DATA).stat().st_size for folder in used if (folder / DATA).is_file()}
    for folder in sorted(sizes, key=lambda folder: used[folder].st_mtime):
        if sum(sizes.values()) <= most_bytes:
            return
        with (folder / LOCK).open("w") as stream:
            if folder != keep and lock(stream):
                shutil.rmtree(folder)
                del sizes[folder]


def _checksum(rows: NDArray[np.float16]) -> str:
    return hashlib.blake2b(np.ascontiguousarray(rows).data, digest_size=16).hexdigest()


class CachedInputs:
    """`semco.data.inputs.Inputs` from a file of outputs of the frozen layers.

    A view is one of the V stored views of its kind, drawn anew at every step.
    """

    def __init__(self, file: FeatureFile, device: torch.device) -> None:
        self.shape = file.shape
        self._array, self._views, self._device = file.open(), file.views, device
        file.mark_used()

    def views(self, position: Tensor, weak: int, strong: int, generator: Generator) -> Views:
        return Views(
            tuple(self._select(position, 1 + column) for column in self._draw(len(position), weak, generator)),
            tuple(
                self._select(position, 1 + self._views + column)
                for column in self._draw(len(position), strong, generator)
            ),
        )

    def plain(self, position: Tensor) -> Tensor:
        return self._select(position, torch.zeros(len(position), dtype=torch.int64))

    def _draw(self, images: int, count: int, generator: Generator) -> list[Tensor]:
        """Return which stored view each image gets, for ``count`` views: different ones as far as there are enough."""
        order = torch.rand((images, self._views), generator=generator).argsort(dim=1)
        return [order[:, i % self._views] for i in range(count)]

    def _select(self, position: Tensor, column: Tensor) -> Tensor:
        rows = torch.from_numpy(self._array[position.numpy(), column.numpy()].astype(np.float32))
        if rows.dim() == 4:
            rows = rows.contiguous(memory_format=torch.channels_last)
        return move(rows, self._device)
