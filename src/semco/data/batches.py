"""Batches as a function of seed and step, so that a run goes on anywhere from those two numbers alone.

The labelled and the unlabelled images are each read as an endless sequence of seeded permutations; step s
takes the next slice of each. Several processes cut the same slice into parts: their number changes nothing.

Shapes: B labelled and U = mu * B unlabelled images of this process, C channels, H and W pixels.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import lru_cache
from types import TracebackType
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from semco.data.randomness import make_generator, make_numpy_generator
from semco.data.split import Split, hidden_truth
from semco.errors import UserError
from semco.types import Batch, ViewCounts, Views

# Of the memory that is free on an accelerator, the images may take so much.
COMFORTABLE = 0.25
# On devices that cannot say how much memory they have free.
COMFORTABLE_BYTES = 1 << 30


class ViewMaker(Protocol):
    """What batches need of augmentation (`semco.data.views.Augment`)."""

    def views(self, images: Tensor, weak: int, strong: int, generator: torch.Generator) -> Views:
        """So many weak and strong views of images (N, C, H, W) uint8; ``generator`` is on the host."""
        ...


def check_batch_size(batch_size: int, processes: int) -> None:
    """Each process trains on as many images as the others."""
    if batch_size % processes:
        raise UserError(
            f"training.batch_size = {batch_size} cannot be shared evenly by {processes} processes: "
            f"choose a multiple of {processes}."
        )


class Stream:
    """The numbers 0..size-1 again and again, each time in an order of seed, name and round."""

    def __init__(self, size: int, seed: int, name: str) -> None:
        assert size > 0, name
        self.size = size
        self._key = (seed, "order", name)
        # A slice rarely touches more than two rounds of a large set; the rounds of a small one are cheap.
        self._round = lru_cache(maxsize=2)(self._shuffle)

    def _shuffle(self, number: int) -> NDArray[np.int64]:
        order: NDArray[np.int64] = make_numpy_generator(*self._key, number).permutation(self.size)
        return order

    def slice(self, start: int, stop: int) -> NDArray[np.int64]:
        """Elements start..stop-1 of the endless sequence."""
        first, last = start // self.size, (stop - 1) // self.size
        rounds = []
        for number in range(first, last + 1):
            before = number * self.size
            rounds.append(self._round(number)[max(0, start - before) : stop - before])
        return np.concatenate(rounds) if rounds else np.empty(0, np.int64)


class Batches:
    """The batches of one process.

    ``batch_size`` counts the labelled images of all processes together.
    """

    def __init__(
        self,
        images: Tensor,
        labels: Tensor,
        split: Split,
        counts: ViewCounts,
        augment: ViewMaker,
        *,
        batch_size: int,
        mu: int,
        seed: int,
        rank: int = 0,
        world_size: int = 1,
        device: torch.device | str = "cpu",
    ) -> None:
        check_batch_size(batch_size, world_size)
        self.device = torch.device(device)
        self._augment, self._counts = augment, counts
        self._seed, self._rank = seed, rank
        self._images = images.to(self.device) if _fits(images, self.device) else images
        self._labels, self._truth = labels, hidden_truth(labels, split)
        self._labelled = _Part("labelled", split.labelled, batch_size, seed, rank, world_size)
        self._unlabelled: _Part | None = None
        if counts.unlabelled_weak or counts.unlabelled_strong:
            self._unlabelled = _Part("unlabelled", split.unlabelled, batch_size * mu, seed, rank, world_size)

    @property
    def image_shape(self) -> tuple[int, ...]:
        """(C, H, W)"""
        return tuple(self._images.shape[1:])

    @property
    def views_per_step(self) -> int:
        """Views of a step that this process makes."""
        of_labelled = self._counts.labelled_weak + self._counts.labelled_strong
        of_pool = self._counts.unlabelled_weak + self._counts.unlabelled_strong
        return self._labelled.share * of_labelled + (self._unlabelled.share * of_pool if self._unlabelled else 0)

    @property
    def steps_per_pass(self) -> int:
        """Steps that see every unlabelled image about once, or every labelled one where there are no others."""
        return (self._unlabelled or self._labelled).steps_per_pass

    def batch(self, step: int) -> tuple[Batch, Tensor]:
        """The batch of a step, and what its unlabelled images truly show: (U,) int64, -1 = unknown."""
        counts = self._counts
        index, where = self._labelled.at(step)
        pool_index, pool_where = self._unlabelled.at(step) if self._unlabelled else _NOTHING
        batch = Batch(
            labels=self._move(self._labels[where]),
            labelled=self._views(where, "labelled", counts.labelled_weak, counts.labelled_strong, step),
            unlabelled=self._views(pool_where, "unlabelled", counts.unlabelled_weak, counts.unlabelled_strong, step),
            labelled_index=self._move(index),
            unlabelled_index=self._move(pool_index),
        )
        return batch, self._move(self._truth[pool_where])

    def _views(self, where: Tensor, purpose: str, weak: int, strong: int, step: int) -> Views:
        if weak == strong == 0:
            return Views()
        images = self._move(self._images[where.to(self._images.device)])
        return self._augment.views(images, weak, strong, make_generator(self._seed, step, self._rank, purpose))

    def _move(self, tensor: Tensor) -> Tensor:
        """To the device; from the host to a GPU through pinned memory, so that nobody waits for the copy."""
        if self.device.type == "cuda" and tensor.device.type == "cpu":
            tensor = tensor.pin_memory()
        return tensor.to(self.device, non_blocking=True)


class _Part:
    """This process's share of one stream."""

    def __init__(self, name: str, members: NDArray[np.int64], size: int, seed: int, rank: int, world_size: int) -> None:
        if len(members) == 0:
            raise UserError(f"there is no {name} image to train on: change data.labels or data.validation.")
        self._members, self._size = torch.from_numpy(members), size
        self.share = size // world_size
        self.steps_per_pass = math.ceil(len(members) / size)
        self._offset = rank * self.share
        self._stream = Stream(len(members), seed, name)

    def at(self, step: int) -> tuple[Tensor, Tensor]:
        """Positions in the part and in the training set of this process's images at a step."""
        start = step * self._size + self._offset
        index = torch.from_numpy(self._stream.slice(start, start + self.share))
        return index, self._members[index]


_NOTHING = (torch.empty(0, dtype=torch.int64), torch.empty(0, dtype=torch.int64))


def _fits(images: Tensor, device: torch.device) -> bool:
    """Whether the images can live on the device without crowding the training."""
    size = images.numel() * images.element_size()
    if device.type == "cpu":
        return True
    if device.type == "cuda":
        return size < COMFORTABLE * torch.cuda.mem_get_info(device)[0]
    return size < COMFORTABLE_BYTES


class Prefetch:
    """The batches of steps start..stop-1, the next one made in the background while the current one trains.

    What goes wrong in the background is raised where the batch is asked for. To be used in a ``with`` block,
    whose end waits for the batch being made and lets the thread go.
    """

    def __init__(self, batches: Batches, start: int, stop: int) -> None:
        self._batches, self._next, self._stop = batches, start, stop
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="semco-batches")
        self._ahead: Future[tuple[Batch, Tensor]] | None = None
        self._ask()

    def _ask(self) -> None:
        self._ahead = None
        if self._next < self._stop:
            self._ahead = self._thread.submit(self._batches.batch, self._next)
            self._next += 1

    def __iter__(self) -> Iterator[tuple[Batch, Tensor]]:
        return self

    def __next__(self) -> tuple[Batch, Tensor]:
        if self._ahead is None:
            raise StopIteration
        current = self._ahead.result()
        self._ask()
        return current

    def close(self) -> None:
        self._ahead = None
        self._thread.shutdown(wait=True, cancel_futures=True)

    def __enter__(self) -> Prefetch:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
