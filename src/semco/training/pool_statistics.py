"""Counts of pseudo-labels while a run trains: per class and log line, and per image of the unlabelled pool.

Labelled images are left out of every count. A weight counts in thousandths, so that all sums are whole numbers: they do
not depend on the order of adding, and a resumed run has the same ones to the last bit.

Shapes: N images of the pool, U of them in a step, K classes, H heads, S slots, P processes, L log lines.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from numpy.typing import NDArray
from torch import Tensor

from semco.data.split import LABELLED
from semco.distributed.processes import Processes, reduce_over_processes, stack_over_processes
from semco.files import atomic_path
from semco.types import PseudoLabels

HEADS = ("one_hot", "semantic")
# The ensemble retains an image that either head retains. If they retain different classes, each counts half.
ROWS = (*HEADS, "ensemble")
# Counted for the ensemble: images that both heads retain ("both"), and those of them with different classes.
COLUMNS = ("images", "retained", "correct", "correct_group", "both", "disagreement")
THOUSANDTHS = 1000
# The paper's figures show the first 10 epochs "in a highly granular view" (supplement), and its most confused images
# are those of the first 10 epochs.
EARLY_EPOCHS = 10
# Log lines that are kept; if there are more, two neighbours of the early or of the later ones are added.
MOST_LINES = 400
# Wrong classes that are counted per image. If an image is given more, the rarest is replaced and its count is taken
# over (the space-saving algorithm), so counts are then upper bounds.
SLOTS = 6
# Steps whose pseudo-labels are collected before they are counted, because counting many at once is faster.
PENDING_STEPS = 16

Ints = NDArray[np.integer]
Floats = NDArray[np.floating]


def count_classes(truth: Ints, labels: Ints, weights: Floats, group_ids: Ints) -> NDArray[np.int64]:
    """Return the counts (3, K + 1, 6) by `ROWS`, true class (the last: unknown) and `COLUMNS`, in thousandths.

    ``truth`` is (U,); ``labels`` and ``weights`` are (2, U), with weights of 0 for a head that does not exist.
    """
    counted = truth != LABELLED
    truth, labels, weights = truth[counted], labels[:, counted], weights[:, counted]
    classes, known = len(group_ids), truth >= 0
    row = np.where(known, truth, classes)
    right = (labels == truth) & known  # (2, U)
    right_group = (group_ids[labels] == group_ids[truth.clip(min=0)]) & known
    either, share = weights.max(axis=0), weights / np.maximum(weights.sum(axis=0), 1e-12)
    both = weights.prod(axis=0)
    table = np.zeros((len(ROWS), classes + 1, len(COLUMNS)), np.int64)
    columns = [[weights[h], weights[h] * right[h], weights[h] * right_group[h]] for h in range(len(HEADS))]
    of_ensemble = [either, either * (share * right).sum(axis=0), either * (share * right_group).sum(axis=0)]
    columns.append([*of_ensemble, both, both * (labels[0] != labels[1])])
    table[:, :, 0] = THOUSANDTHS * np.bincount(row, minlength=classes + 1)
    for h, values in enumerate(columns):
        for c, value in enumerate(values, start=1):
            thousandths = np.rint(THOUSANDTHS * value)
            table[h, :, c] = np.bincount(row, weights=thousandths, minlength=classes + 1)
    return table


@dataclass
class ImageCounts:
    """How often each image of the pool was seen, retained, and given which wrong class, in the first epochs."""

    seen: NDArray[np.int32]  # (N,)
    retained: NDArray[np.int32]  # (2, N), with at least half the weight, by head
    wrong_class: NDArray[np.int32]  # (N, S), -1 for an empty slot
    wrong_count: NDArray[np.int32]  # (N, S)

    @classmethod
    def empty(cls, size: int) -> ImageCounts:
        return cls(
            np.zeros(size, np.int32),
            np.zeros((len(HEADS), size), np.int32),
            np.full((size, SLOTS), -1, np.int32),
            np.zeros((size, SLOTS), np.int32),
        )

    def add(self, index: Ints, truth: Ints, labels: Ints, weights: Floats) -> None:
        """Count images at ``index`` (U,), in the order in which they were seen; shapes as in `count_classes`."""
        counted = truth != LABELLED
        index, truth, labels, weights = index[counted], truth[counted], labels[:, counted], weights[:, counted]
        kept = weights >= 0.5  # (2, U)
        np.add.at(self.seen, index, 1)
        for h in range(len(HEADS)):
            np.add.at(self.retained[h], index, kept[h])
        wrong = kept & (labels != truth) & (truth >= 0)
        wrong[1] &= ~(wrong[0] & (labels[0] == labels[1]))  # the same wrong class of both heads counts once
        by_time = wrong.T.ravel()
        self.add_wrong(np.repeat(index, len(HEADS))[by_time], labels.T.ravel()[by_time])

    def add_wrong(self, index: Ints, class_ids: Ints, amounts: Ints | None = None) -> None:
        """Count wrong classes (n,) of images (n,), ``amounts`` (n,) times each, once by default."""
        amounts = np.ones(len(index), np.int32) if amounts is None else amounts
        while len(index):
            images, first = np.unique(index, return_index=True)  # an image that occurs again has to wait
            slots, counts, given = self.wrong_class[images], self.wrong_count[images], class_ids[first]
            is_own = slots == given[:, None]
            slot = np.where(is_own.any(axis=1), is_own.argmax(axis=1), counts.argmin(axis=1))
            self.wrong_class[images, slot] = given
            self.wrong_count[images, slot] += amounts[first].astype(np.int32)
            rest = np.delete(np.arange(len(index)), first)
            index, class_ids, amounts = index[rest], class_ids[rest], amounts[rest]

    def merge(self, other: ImageCounts) -> None:
        """Add the counts of another process."""
        self.seen += other.seen
        self.retained += other.retained
        index, slot = np.nonzero(other.wrong_count)
        self.add_wrong(index, other.wrong_class[index, slot], other.wrong_count[index, slot])

    def top(self, number: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Return the most frequent wrong classes of each image and their counts: (N, number), -1 and 0 for none."""
        order = np.argsort(-self.wrong_count, axis=1, kind="stable")[:, :number]
        return np.take_along_axis(self.wrong_class, order, 1), np.take_along_axis(self.wrong_count, order, 1)


@dataclass
class ClassHistory:
    """The counts per class of each log line; the early ones stay as fine as they were logged, up to half of all."""

    early_steps: int
    steps: list[int] = field(default_factory=list)
    tables: list[NDArray[np.int64]] = field(default_factory=list)  # each (3, K + 1, 6)

    def append(self, step: int, table: NDArray[np.int64]) -> None:
        self.steps.append(step)
        self.tables.append(table)
        if len(self.steps) > MOST_LINES:
            early = sum(each <= self.early_steps for each in self.steps)
            self._add_two_lines(*((0, early) if early > MOST_LINES // 2 else (early, len(self.steps))))

    def _add_two_lines(self, start: int, end: int) -> None:
        """Add the two neighbouring lines from ``start`` to ``end`` that together span the fewest steps."""
        ends = np.asarray([0, *self.steps][start : end + 1])
        first = start + int(np.argmin(ends[2:] - ends[:-2]))
        self.tables[first : first + 2] = [self.tables[first] + self.tables[first + 1]]
        del self.steps[first]


class PoolStatistics:
    """What pseudo-labelling did so far, in one of possibly several processes.

    With a ``pool_size`` of 0 nothing is counted per image, and no log line is kept. Images are counted in the first
    ``early_steps`` steps.
    """

    def __init__(self, group_ids: Tensor, pool_size: int = 0, early_steps: int = 10**9) -> None:
        self._group_ids, self._early_steps, self._taken = group_ids.numpy(force=True), early_steps, 0
        self._pending: list[tuple[Tensor | None, Tensor, Mapping[str, PseudoLabels]]] = []
        self.current = self._zeros()
        self.history = ClassHistory(early_steps)
        self.images = ImageCounts.empty(pool_size)

    @property
    def is_kept(self) -> bool:
        return len(self.images.seen) > 0

    @property
    def has_counts(self) -> bool:
        """Whether the method makes pseudo-labels at all; the same in all processes."""
        return bool(self.history.steps or self._pending or self.current.any())

    def _zeros(self) -> NDArray[np.int64]:
        return np.zeros((len(ROWS), len(self._group_ids) + 1, len(COLUMNS)), np.int64)

    def add(self, pseudo_labels: Mapping[str, PseudoLabels], truth: Tensor, index: Tensor | None) -> None:
        """Add a step, rarely waiting for the device; ``truth`` and ``index`` are (U,)."""
        if pseudo_labels:
            self._pending.append((index, truth, pseudo_labels))
        if len(self._pending) >= PENDING_STEPS:
            self.count()

    def count(self) -> None:
        """Count the steps that were collected."""
        pending, self._pending = self._pending, []
        if not pending:
            return
        truth = _joined([truth for _, truth, _ in pending])
        labels, weights = (
            np.stack([_joined([_column(pseudo, head, name) for _, _, pseudo in pending]) for head in HEADS])
            for name in ("class_ids", "weights")
        )
        self.current += count_classes(truth, labels, weights.astype(np.float64), self._group_ids)
        index = [index for index, _, _ in pending if index is not None]
        early = sum(len(each) for _, each, _ in pending[: max(0, self._early_steps - self._taken)])  # images
        if self.is_kept and index and early:
            self.images.add(_joined(index)[:early], truth[:early], labels[:, :early], weights[:, :early])
        self._taken += len(pending)

    def end_line(self, step: int, processes: Processes) -> NDArray[np.int64]:
        """Return the counts (3, K + 1, 6) of all processes since the last line, and start again from zero."""
        self.count()
        (table,) = reduce_over_processes([torch.from_numpy(self.current)], processes)
        self.current = self._zeros()
        if self.is_kept and table.any():
            self.history.append(step, table.numpy())
        return table.numpy()

    def merged_images(self, processes: Processes) -> ImageCounts:
        """Return the counts per image of all processes."""
        if not processes.are_several:
            return self.images
        return _merge(_unstack(_stack(self.images, processes)))

    def state(self, processes: Processes) -> dict[str, Tensor]:
        """Return the counts of every process, (P, ...) by name, and the log lines, which all processes share."""
        self.count()
        history = np.stack(self.history.tables) if self.history.tables else self._zeros()[None][:0]
        return {
            "current": stack_over_processes(torch.from_numpy(self.current), processes),
            "taken": torch.tensor(self._taken),
            "steps": torch.tensor(self.history.steps, dtype=torch.int64),
            "history": torch.from_numpy(history),
            **_stack(self.images, processes),
        }

    def load(self, state: Mapping[str, Tensor], processes: Processes) -> None:
        """Load this process's counts; if the number of processes has changed, the main one gets the sum of all."""
        current, images = list(state["current"].numpy()), _unstack(state)
        if len(current) != processes.world_size:
            current, images = [np.sum(current, axis=0)], [_merge(images)]
        has_any = processes.rank < len(current)
        self.current = current[processes.rank].copy() if has_any else self._zeros()
        self.images = images[processes.rank] if has_any else ImageCounts.empty(len(self.images.seen))
        self._taken = int(state["taken"])
        self.history = ClassHistory(self._early_steps, state["steps"].tolist(), list(state["history"].numpy()))


def _joined(parts: list[Tensor]) -> NDArray[Any]:
    joined: NDArray[Any] = torch.cat([part.detach() for part in parts]).numpy(force=True)
    return joined


def _column(pseudo_labels: Mapping[str, PseudoLabels], head: str, name: str) -> Tensor:
    """Return a column (U,) of a head's pseudo-labels; a head that does not exist retains nothing."""
    if head in pseudo_labels:
        column: Tensor = getattr(pseudo_labels[head], name)
        return column.float() if name == "weights" else column
    other = next(iter(pseudo_labels.values()))
    return torch.zeros_like(other.weights, dtype=torch.float32) if name == "weights" else other.class_ids


def _stack(images: ImageCounts, processes: Processes) -> dict[str, Tensor]:
    """Return the counts per image of every process: (P, ...) by name."""
    return {name: stack_over_processes(torch.from_numpy(array), processes) for name, array in vars(images).items()}


def _unstack(state: Mapping[str, Tensor]) -> list[ImageCounts]:
    names = list(vars(ImageCounts.empty(0)))
    rows = zip(*(state[name].numpy() for name in names), strict=True)
    return [ImageCounts(*(array.copy() for array in row)) for row in rows]


def _merge(parts: list[ImageCounts]) -> ImageCounts:
    merged, *others = parts
    for other in others:
        merged.merge(other)
    return merged


TOP_WRONG = 3  # wrong classes per image that are written


def write_class_counts(file: Path, history: ClassHistory) -> None:
    """Write one row per log line, head and true class (-1: unknown) with the counts since the line before.

    A head that retained nothing in the whole run is left out, and so is the ensemble of a single head.
    """
    tables = np.stack(history.tables) if history.tables else np.zeros((0, len(ROWS), 1, len(COLUMNS)), np.int64)
    lines, _, classes, _ = tables.shape
    heads = [h for h in range(len(HEADS)) if tables[:, h, :, 1].any()] or [0]
    heads += [len(HEADS)] if len(heads) == len(HEADS) else []
    chosen = tables[:, heads].reshape(-1, len(COLUMNS)) / THOUSANDTHS  # (L * heads * (K + 1), 5)
    class_ids = np.append(np.arange(classes - 1), -1)
    names = pa.array([ROWS[h] for h in heads]).dictionary_encode()
    columns: dict[str, Any] = {
        "step": np.repeat(np.asarray(history.steps, np.int64), len(heads) * classes),
        "head": names.take(pa.array(np.tile(np.repeat(np.arange(len(heads)), classes), lines))),
        "class_id": np.tile(class_ids.astype(np.int32), lines * len(heads)),
        **dict(zip(COLUMNS, chosen.T, strict=True)),
    }
    _write(file, columns)


def write_image_counts(file: Path, index: NDArray[np.integer], truth: NDArray[np.integer], counts: ImageCounts) -> None:
    """Write one row per unlabelled image: how often it was seen, retained by each head, and given which wrong class.

    ``index`` (N,) are positions in the training set; ``truth`` (N,) is -1 where the class is not known.
    """
    kept = np.flatnonzero(truth != LABELLED)
    wrong, number = counts.top(TOP_WRONG)
    columns: dict[str, Any] = {"index": index[kept], "truth": truth[kept], "seen": counts.seen[kept]}
    columns |= {f"retained_{head}": row[kept] for head, row in zip(HEADS, counts.retained, strict=True)}
    for k in range(TOP_WRONG):
        columns |= {f"wrong_{k + 1}": wrong[kept, k], f"wrong_{k + 1}_count": number[kept, k]}
    _write(file, columns)


def _write(file: Path, columns: dict[str, Any]) -> None:
    with atomic_path(file) as temporary:
        pq.write_table(pa.table(columns), temporary)
