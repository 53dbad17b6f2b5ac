"""Counts of pseudo-labels per class, read from ``classes.parquet``, and curves of them.

Shapes: L log lines, H heads, K classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from semco.errors import UserError
from semco.files import exists
from semco.run.folder import RunFolder
from semco.training.pool_statistics import COLUMNS, HEADS, ROWS

Measure = Literal["ratio", "accuracy", "group_accuracy", "disagreement", "disagreement_of_both"]
# The count that a measure divides, and the one by which it divides.
FRACTIONS: dict[Measure, tuple[str, str]] = {
    "ratio": ("retained", "images"),
    "accuracy": ("correct", "retained"),
    "group_accuracy": ("correct_group", "retained"),
    "disagreement": ("disagreement", "images"),
    "disagreement_of_both": ("disagreement", "both"),
}
Curve = tuple[list[float], list[float]]  # steps, values


@dataclass(frozen=True)
class ClassCounts:
    """Counts since the line before, by head, log line, true class (the last: unknown) and column."""

    steps: NDArray[np.int64]  # (L,)
    heads: tuple[str, ...]
    values: NDArray[np.float64]  # (H, L, K + 1, 6)

    @property
    def num_classes(self) -> int:
        return int(self.values.shape[2]) - 1

    @property
    def has_classes(self) -> bool:
        """Whether the true class of any image of the pool is known."""
        return bool(self.values[:, :, :-1].any())

    @property
    def widest_head(self) -> str:
        """The ensemble of both heads if there is one, else the only head."""
        return self.heads[-1]

    def until(self, step: int) -> ClassCounts:
        """Return the counts of the log lines up to a step; at least the first one."""
        kept = max(1, int((self.steps <= step).sum()))
        return ClassCounts(self.steps[:kept], self.heads, self.values[:, :kept])

    def smoothed(self) -> ClassCounts:
        """Return the counts added over the neighbouring log lines, a tenth of all around each."""
        reach, length = len(self.steps) // 20, len(self.steps)
        windows = [self.values[:, max(0, i - reach) : i + reach + 1].sum(axis=1) for i in range(length)]
        return ClassCounts(self.steps, self.heads, np.stack(windows, axis=1))

    def curve(self, head: str, class_ids: Sequence[int], measure: Measure) -> Curve:
        """Return a measure of some classes together at each log line; lines where it is not defined are left out."""
        above, below = (counts.sum(axis=1) for counts in self._parts(head, class_ids, measure))
        defined = below > 0
        return self.steps[defined].astype(float).tolist(), (above[defined] / below[defined]).tolist()

    def spread(self, head: str, class_ids: Sequence[int], measure: Measure) -> list[float]:
        """Return the standard deviation of the classes, weighted by counts, at the points of their `curve`."""
        above, below = self._parts(head, class_ids, measure)
        defined = below.sum(axis=1) > 0
        above, below = above[defined], below[defined]
        total = below.sum(axis=1, keepdims=True)
        distances = above / np.maximum(below, 1e-12) - above.sum(axis=1, keepdims=True) / total
        return [float(value) for value in np.sqrt((below / total * distances**2).sum(axis=1))]

    def _parts(
        self, head: str, class_ids: Sequence[int], measure: Measure
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return what a measure divides and by what, both (L, number of classes)."""
        part, whole = FRACTIONS[measure]
        counts = self.values[self.heads.index(head)][:, list(class_ids)]
        return counts[..., COLUMNS.index(part)], counts[..., COLUMNS.index(whole)]

    def mean(self, head: str, class_ids: Sequence[int], measure: Measure) -> float | None:
        """Return a measure of some classes over the whole run; None if it is not defined."""
        above, below = (counts.sum() for counts in self._parts(head, class_ids, measure))
        return float(above / below) if below else None


def read_class_counts(run: Path) -> ClassCounts | None:
    """Return the counts of a run; None if it made no pseudo-labels or was trained without statistics."""
    file = RunFolder(run).classes_file
    if not exists(file):
        return None
    try:
        columns = pq.read_table(file, columns=["step", "head", *COLUMNS])
    except (pa.ArrowInvalid, OSError) as error:
        raise UserError(f"{file} cannot be read ({str(error).splitlines()[0]}); train the run again.") from None
    steps, heads = columns["step"].unique().to_numpy(), tuple(columns["head"].unique().to_pylist())
    if not len(steps):
        return None
    values = np.stack([columns[name].to_numpy() for name in COLUMNS], axis=1)
    table = values.reshape(len(steps), len(heads), -1, len(COLUMNS)).swapaxes(0, 1)
    return ClassCounts(steps.astype(np.int64), heads, table)


def add_counts(counts: Sequence[ClassCounts]) -> ClassCounts:
    """Return the sum of the counts of repeated runs, at the log lines and heads that all of them have."""
    steps = np.asarray(sorted(set.intersection(*(set(each.steps.tolist()) for each in counts))), np.int64)
    heads = tuple(head for head in ROWS if all(head in each.heads for each in counts))
    total = sum(_select(each, heads, steps) for each in counts)
    return ClassCounts(steps, heads, np.asarray(total))


def _select(counts: ClassCounts, heads: Sequence[str], steps: NDArray[np.int64]) -> Any:
    rows = np.searchsorted(counts.steps, steps)
    return counts.values[[counts.heads.index(head) for head in heads]][:, rows]


def has_both_heads(counts: ClassCounts) -> bool:
    """Return whether the method has the two heads that can disagree."""
    return all(head in counts.heads for head in HEADS)
