"""Statistics for the log; losses are summed on the device, and the host reads them once per log line.

Shapes: U unlabelled images, K classes, P processes.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from semco.data.split import LABELLED
from semco.distributed.processes import Processes, pack, stack_over_processes, sum_over_processes, unpack
from semco.run.checkpoint import add_prefix, with_prefix
from semco.training.pool_statistics import HEADS, THOUSANDTHS, PoolStatistics
from semco.types import PseudoLabels, StepResult

# Rows of a pseudo-label table: the true class is alone in its group, shares its group, or is not known.
ALONE, GROUPED, UNKNOWN = 0, 1, 2
# Columns: images, retained, retained and correct, retained and in the right group.
COLUMNS = 4
# Accuracy on the test images in runs without validation images, for Fig. 4 a and b; nothing is chosen by it.
TEST_ACCURACY = "test_accuracy_for_figures"
# The most confident fraction of the images of grouped classes, and the name of the accuracy on it.
MOST_CONFIDENT, CONFIDENT_ACCURACY = 0.2, "surest_accuracy/grouped"


def pseudo_label_table(pseudo: PseudoLabels, truth: Tensor, group_ids: Tensor, is_grouped: Tensor) -> Tensor:
    """Return the counts (3, 4) of one head on a set of images.

    ``truth`` (U,) holds the true classes, -1 if unknown; ``group_ids`` and ``is_grouped`` are (K,).
    """
    known = truth >= 0
    safe = truth.clamp(min=0)
    row = torch.where(known, is_grouped[safe].long(), UNKNOWN)  # (U,)
    retained = pseudo.weights.float()
    correct = retained * ((pseudo.class_ids == truth) & known)
    correct_group = retained * ((group_ids[pseudo.class_ids] == group_ids[safe]) & known)
    columns = torch.stack([torch.ones_like(retained), retained, correct, correct_group], dim=1)  # (U, 4)
    return torch.nn.functional.one_hot(row, 3).float().T @ columns


def describe_table(table: Tensor) -> dict[str, float | None]:
    """Return ratio, accuracy and group accuracy of the retained images: all, of grouped classes, of other classes."""
    described: dict[str, float | None] = {}
    known = table[ALONE] + table[GROUPED]
    parts = {"": (table.sum(0), known), "/grouped": (table[GROUPED],) * 2, "/ungrouped": (table[ALONE],) * 2}
    for suffix, (everything, checked) in parts.items():
        images, retained, _, _ = everything.tolist()
        _, checkable, correct, correct_group = checked.tolist()
        described[f"ratio{suffix}"] = retained / images if images else None
        described[f"accuracy{suffix}"] = correct / checkable if checkable else None
        described[f"group_accuracy{suffix}"] = correct_group / checkable if checkable else None
    return described


def describe_pool(
    pseudo_labels: Mapping[str, PseudoLabels], truth: Tensor, group_ids: Tensor
) -> dict[str, dict[str, float | None]]:
    """Return `describe_table` of each head's pseudo-labels for a whole pool; ``truth`` is (U,), ``group_ids`` (K,).

    Heads retain different fractions of the pool; the accuracy on the most confident images makes them comparable.
    Labelled images are left out.
    """
    is_grouped, counted = shares_group(group_ids), truth != LABELLED
    described, truth = {}, truth[counted]
    for head, every in pseudo_labels.items():
        pseudo = PseudoLabels(every.class_ids[counted], every.weights[counted], every.confidence[counted])
        table = describe_table(pseudo_label_table(pseudo, truth, group_ids, is_grouped))
        described[head] = {**table, CONFIDENT_ACCURACY: confident_accuracy(pseudo, truth, is_grouped)}
    return described


def confident_accuracy(
    pseudo: PseudoLabels, truth: Tensor, is_counted: Tensor, fraction: float = MOST_CONFIDENT
) -> float | None:
    """Return the accuracy on the most confident fraction of the images whose true class counts (K,)."""
    images = ((truth >= 0) & is_counted[truth.clamp(min=0)]).nonzero()[:, 0]
    order = pseudo.confidence[images].argsort(descending=True, stable=True)
    chosen = images[order[: round(fraction * len(images))]]
    return float((pseudo.class_ids[chosen] == truth[chosen]).float().mean()) if len(chosen) else None


def shares_group(group_ids: Tensor) -> Tensor:
    """Return whether each class (K,) shares its group with another class."""
    return torch.bincount(group_ids)[group_ids] > 1


def describe_classes(table: NDArray[np.int64], is_grouped: Tensor) -> dict[str, float | None]:
    """Return `describe_table` of each head that retained or saw anything, from counts (3, K + 1, 6) by class."""
    described: dict[str, float | None] = {}
    kind = np.append(is_grouped.numpy(force=True).astype(np.int64), UNKNOWN)  # (K + 1,)
    for head, counts in zip(HEADS, table[:, :, :COLUMNS] / THOUSANDTHS, strict=False):
        rows = np.stack([counts[kind == row].sum(axis=0) for row in (ALONE, GROUPED, UNKNOWN)])
        described |= {f"pseudo/{head}/{key}": value for key, value in describe_table(torch.from_numpy(rows)).items()}
    return described


class Meters:
    """Sums since the last log line. They are part of a checkpoint, so that resuming a run changes no line."""

    def __init__(self, group_ids: Tensor, pool_size: int = 0, early_steps: int = 10**9) -> None:
        """``pool_size``: number of images for which pseudo-labels are counted; 0 counts them by class only."""
        self._group_ids = group_ids
        self._is_grouped = shares_group(group_ids)
        self._heads: tuple[str, ...] = ()
        self.sums: dict[str, Tensor] = {}
        self.pool = PoolStatistics(group_ids, pool_size, early_steps)

    def add(self, result: StepResult, truth: Tensor, index: Tensor | None = None) -> None:
        """Add one step without waiting for the device; ``index`` (U,) are positions in the pool."""
        self._add("steps", torch.ones((), device=truth.device))
        self._add("loss", result.total.detach())
        for name, loss in result.losses.items():
            self._add(f"loss/{name}", loss.detach())
        for name, value in result.metrics.items():
            self._add(name, value.detach())
        self._heads = tuple(result.pseudo_labels)
        self.pool.add(result.pseudo_labels, truth, index)

    def _add(self, name: str, value: Tensor) -> None:
        self.sums[name] = self.sums[name] + value if name in self.sums else value.clone().float()

    def line(self, step: int = 0, processes: Processes | None = None) -> dict[str, float | None]:
        """Return the means over the added steps of all processes, and start again from zero."""
        processes = processes or Processes()
        sums = {name: value.cpu() for name, value in sum_over_processes(self.sums, processes).items()}
        steps = float(sums.pop("steps", torch.ones(())))
        described: dict[str, float | None] = {name: float(value) / steps for name, value in sums.items()}
        counts = describe_classes(self.pool.end_line(step, processes), self._is_grouped)
        self.sums = {}
        return described | {name: value for name, value in counts.items() if name.split("/")[1] in self._heads}

    def state(self, processes: Processes) -> dict[str, Tensor]:
        """Return the sums of every process, by name: (P, ...)."""
        pool = add_prefix("pool", self.pool.state(processes))
        if not self.sums:
            return pool
        names, values = list(self.sums), list(self.sums.values())
        rows = [unpack(row, values) for row in stack_over_processes(pack(values), processes)]
        return pool | {name: torch.stack([row[i] for row in rows]) for i, name in enumerate(names)}

    def load(self, state: Mapping[str, Tensor], processes: Processes) -> None:
        """Load this process's sums; if the number of processes has changed, the mean over those that saved them."""
        self.pool.load(with_prefix("pool", state), processes)
        device = self._group_ids.device
        self.sums = {
            name: _own_share(rows.to(device), processes) for name, rows in state.items() if not name.startswith("pool.")
        }


def _own_share(rows: Tensor, processes: Processes) -> Tensor:
    """Return this process's part of sums (P,) of means over images."""
    return rows[processes.rank] if len(rows) == processes.world_size else rows.mean(0)


class DivergenceMonitor:
    """Records on the device the first step at which each loss term was not finite."""

    def __init__(self) -> None:
        self._first: dict[tuple[str, ...], Tensor] = {}  # by the names of the losses of a step, one row for each

    def check(self, result: StepResult, step: int) -> None:
        names = tuple(result.losses)
        losses = torch.stack([loss.detach() for loss in result.losses.values()])
        bad = torch.where(losses.isfinite(), -1, step)
        seen = self._first.get(names)
        self._first[names] = bad if seen is None else torch.where(seen >= 0, seen, bad)

    def first_divergence(self) -> tuple[list[str], int] | None:
        """Return the terms that diverged first and the step, or None. This waits for the device."""
        broken = [
            (name, step)
            for names, steps in self._first.items()
            for name, step in zip(names, steps.tolist(), strict=True)
            if step >= 0
        ]
        if not broken:
            return None
        first = min(step for _, step in broken)
        return [name for name, step in broken if step == first], first
