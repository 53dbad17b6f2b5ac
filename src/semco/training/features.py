"""Outputs of the frozen layers of a network, computed once for all steps and kept in a memory-mapped file.

For each training image the file holds the plain view, V weak and V strong views: (N, 1 + 2V, ...) float16. For test
images, and for heads that are fitted, it holds one view as it was computed, in float32, so that no prediction depends
on whether it was stored.
A file is made in chunks of images (`semco.data.storage.chunks`).

Shapes: N images, V views of each kind.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Generator, Tensor, nn

from semco.data.inputs import Inputs, move
from semco.data.randomness import make_generator
from semco.data.storage.chunks import Chunk, ChunkedFile, Report
from semco.data.storage.mapped import count_read, map_array
from semco.models.backbone import close_up
from semco.training.allocator import reuse_freed_memory
from semco.types import Views

# Images whose views are computed at a time.
CHUNK = 32


@dataclass(frozen=True)
class FeatureFile:
    """Where the outputs of the frozen layers are kept, and for which images and views."""

    folder: Path
    images: int
    views: int  # of each kind
    shape: tuple[int, ...]  # of one output of the frozen layers

    @property
    def views_per_image(self) -> int:
        """The plain view and those of both kinds."""
        return 1 + 2 * self.views

    @property
    def file(self) -> ChunkedFile:
        shape = (self.images, self.views_per_image, *self.shape)
        dtype = np.dtype(np.float16 if self.views else np.float32)
        less = f"lower model.cached_views ({self.views})"
        advice = less if self.views else "set SEMCO_CACHE_GB=0 to store none of test images"
        content = "the outputs of the frozen layers"
        return ChunkedFile(self.folder / f"features.f{8 * dtype.itemsize}", dtype, shape, CHUNK, content, advice)

    @property
    def size(self) -> int:
        """Bytes of the file."""
        return self.file.size

    def open(self) -> NDArray[Any]:
        """Return the file as an array (N, 1 + 2V, ...), read-only."""
        return map_array(self.file.data, self.file.dtype, self.file.shape)

    def mark_used(self) -> None:
        """Record that the file was used now, so that it is not removed first."""
        self.file.mark_used()

    def is_complete(self) -> bool:
        """Return whether all chunks are there and are what was computed."""
        return self.file.finished() is not None

    def count_missing(self) -> int:
        """Return how many views no run has computed yet."""
        return (self.images - self.file.count_recorded()) * self.views_per_image

    def compute(self, frozen: nn.Module, inputs: Inputs, device: torch.device, report: Report) -> None:
        """Compute the chunks that are missing; another process that computes the same file is waited for."""
        with torch.inference_mode(), reuse_freed_memory(device) as keep_memory:

            def make(number: int) -> Chunk:
                outputs = self._chunk(frozen, inputs, number)
                keep_memory()
                return Chunk(outputs)

            self.file.fill(make, report)

    def _chunk(self, frozen: nn.Module, inputs: Inputs, number: int) -> NDArray[Any]:
        """Return the outputs (n, 1 + 2V, ...) for one chunk of images; the number decides the views."""
        position = torch.arange(number * CHUNK, min((number + 1) * CHUNK, self.images))
        each = [inputs.plain(position)]
        if self.views:
            views = inputs.views(position, self.views, self.views, make_generator(number, "features"))
            each += [*views.weak, *views.strong]
        return np.stack([frozen(view).numpy(force=True).astype(self.file.dtype) for view in each], axis=1)


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
        stored = self._array[position.numpy(), column.numpy()]
        count_read(self._array, stored.nbytes)
        rows = torch.from_numpy(stored.astype(np.float32, copy=False))
        if rows.dim() == 4:
            rows = rows.contiguous(memory_format=torch.channels_last)
        return move(rows, self._device)


class CloseUpInputs:
    """`semco.data.inputs.Inputs` whose plain views are close-ups."""

    def __init__(self, images: Inputs) -> None:
        self.shape, self._images = images.shape, images

    def views(self, position: Tensor, weak: int, strong: int, generator: Generator) -> Views:
        return self._images.views(position, weak, strong, generator)

    def plain(self, position: Tensor) -> Tensor:
        return close_up(self._images.plain(position))


class ViewInputs:
    """`semco.data.inputs.Inputs` with the features (V, F) of several plain views of each image."""

    def __init__(self, each: Sequence[Inputs]) -> None:
        self.shape, self._each = (len(each), *each[0].shape), each

    def views(self, position: Tensor, weak: int, strong: int, generator: Generator) -> Views:  # noqa: ARG002
        raise AssertionError("a method that is fitted draws no views")

    def plain(self, position: Tensor) -> Tensor:
        return torch.stack([view.plain(position) for view in self._each], dim=1)
