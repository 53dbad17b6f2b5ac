"""Batches as a function of seed and step, so that a run can be resumed at any step from these two numbers.

The labelled images and the unlabelled images are each read as an endless sequence of seeded permutations; each step
takes the next slice of both. Several processes divide the same slice, so the number of processes does not change
which images a step uses.

Shapes: B labelled and U = mu * B unlabelled images of this process, C channels, H height, W width.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import lru_cache
from types import TracebackType

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from semco.data.inputs import Inputs, move
from semco.data.randomness import make_generator, make_numpy_generator
from semco.data.split import Split, hidden_truth
from semco.errors import UserError
from semco.types import Batch, ViewCounts, Views


def check_batch_size(batch_size: int, processes: int) -> None:
    """Raise an error if the processes cannot all get the same number of images."""
    if batch_size % processes:
        raise UserError(
            f"training.batch_size = {batch_size} cannot be divided evenly among {processes} processes: "
            f"choose a multiple of {processes}."
        )


class Stream:
    """An endless sequence of permutations of 0..size-1; seed, name and round number determine each of them."""

    def __init__(self, size: int, seed: int, name: str) -> None:
        assert size > 0, name
        self.size = size
        self._key = (seed, "order", name)
        # A slice of a large set rarely spans more than two rounds; the rounds of a small set are cheap to compute.
        self._round = lru_cache(maxsize=2)(self._shuffle)

    def _shuffle(self, number: int) -> NDArray[np.int64]:
        order: NDArray[np.int64] = make_numpy_generator(*self._key, number).permutation(self.size)
        return order

    def slice(self, start: int, stop: int) -> NDArray[np.int64]:
        """Return elements start..stop-1 of the sequence."""
        first, last = start // self.size, (stop - 1) // self.size
        rounds = []
        for number in range(first, last + 1):
            before = number * self.size
            rounds.append(self._round(number)[max(0, start - before) : stop - before])
        return np.concatenate(rounds) if rounds else np.empty(0, np.int64)


class Batches:
    """The batches of one process.

    ``batch_size`` is the number of labelled images in a step, of all processes together.
    """

    def __init__(
        self,
        inputs: Inputs,
        labels: Tensor,
        split: Split,
        counts: ViewCounts,
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
        self._inputs, self._counts = inputs, counts
        self._seed, self._rank = seed, rank
        self._labels, self._truth = labels, hidden_truth(labels, split)
        self._labelled = _ProcessShare("labelled", split.labelled, batch_size, seed, rank, world_size)
        self._unlabelled: _ProcessShare | None = None
        if counts.unlabelled_weak or counts.unlabelled_strong:
            self._unlabelled = _ProcessShare("unlabelled", split.unlabelled, batch_size * mu, seed, rank, world_size)

    @property
    def views_per_step(self) -> int:
        """The number of views that this process makes in a step."""
        per_labelled = self._counts.labelled_weak + self._counts.labelled_strong
        per_unlabelled = self._counts.unlabelled_weak + self._counts.unlabelled_strong
        labelled, unlabelled = self._labelled.size, self._unlabelled.size if self._unlabelled else 0
        return labelled * per_labelled + unlabelled * per_unlabelled

    @property
    def steps_per_pass(self) -> int:
        """The number of steps in which every unlabelled image (every labelled one, if no other is used) occurs once."""
        return (self._unlabelled or self._labelled).steps_per_pass

    @property
    def pool(self) -> tuple[Tensor, Tensor]:
        """The positions of the unlabelled pool in the training set, and the true classes as in `batch`: both (N,)."""
        positions = self._unlabelled.members if self._unlabelled else _NO_INDICES[0]
        return positions, self._truth[positions]

    def batch(self, step: int) -> tuple[Batch, Tensor]:
        """Return the batch of a step, and the true classes of its unlabelled images: (U,) int64.

        `semco.data.split.UNKNOWN` and `LABELLED` stand for classes that are not known and images that are not scored.
        """
        counts = self._counts
        index, position = self._labelled.indices(step)
        pool_index, pool_position = self._unlabelled.indices(step) if self._unlabelled else _NO_INDICES
        batch = Batch(
            class_ids=move(self._labels[position], self.device),
            labelled=self._views(position, "labelled", counts.labelled_weak, counts.labelled_strong, step),
            unlabelled=self._views(pool_position, "unlabelled", counts.unlabelled_weak, counts.unlabelled_strong, step),
            labelled_index=move(index, self.device),
            unlabelled_index=move(pool_index, self.device),
        )
        return batch, move(self._truth[pool_position], self.device)

    def _views(self, position: Tensor, purpose: str, weak: int, strong: int, step: int) -> Views:
        if weak == strong == 0:
            return Views()
        return self._inputs.views(position, weak, strong, make_generator(self._seed, step, self._rank, purpose))


class _ProcessShare:
    """The images of one stream that this process uses in each step."""

    def __init__(
        self, name: str, members: NDArray[np.int64], step_size: int, seed: int, rank: int, world_size: int
    ) -> None:
        """``members`` are positions in the training set; all processes together use ``step_size`` of them per step."""
        if len(members) == 0:
            raise UserError(f"there is no {name} image to train on: change data.num_labels, data.pool or validation.")
        self.members, self._step_size = torch.from_numpy(members), step_size
        self.size = step_size // world_size
        self.steps_per_pass = math.ceil(len(members) / step_size)
        self._offset = rank * self.size
        self._stream = Stream(len(members), seed, name)

    def indices(self, step: int) -> tuple[Tensor, Tensor]:
        """Return the positions of a step's images, among the members and in the training set."""
        start = step * self._step_size + self._offset
        index = torch.from_numpy(self._stream.slice(start, start + self.size))
        return index, self.members[index]


_NO_INDICES = (torch.empty(0, dtype=torch.int64), torch.empty(0, dtype=torch.int64))


class Prefetch:
    """Iterator over the batches of steps start..stop-1; a thread makes the next batch while the current one trains.

    An error in the thread is raised when its batch is requested. Use it in a ``with`` block: on exit it waits for the
    batch being made and ends the thread.
    """

    def __init__(self, batches: Batches, start: int, stop: int) -> None:
        self._batches, self._next, self._stop = batches, start, stop
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="semco-batches")
        self._future: Future[tuple[Batch, Tensor]] | None = None
        self._submit_next()

    def _submit_next(self) -> None:
        self._future = None
        if self._next < self._stop:
            self._future = self._thread.submit(self._batches.batch, self._next)
            self._next += 1

    def __iter__(self) -> Iterator[tuple[Batch, Tensor]]:
        return self

    def __next__(self) -> tuple[Batch, Tensor]:
        if self._future is None:
            raise StopIteration
        current = self._future.result()
        self._submit_next()
        return current

    def close(self) -> None:
        """End the thread, after the batch that it is making."""
        self._future = None
        self._thread.shutdown(wait=True, cancel_futures=True)

    def __enter__(self) -> Prefetch:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
