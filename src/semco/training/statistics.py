"""Statistics for the log, summed on the device; the host reads them once per log line.

Shapes: U unlabelled images, K classes, P processes.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from semco.distributed.processes import Processes, pack, stack_over_processes, unpack
from semco.types import PseudoLabels, StepResult

# Rows of a pseudo-label table: the true class is alone in its group, shares its group, or is not known.
ALONE, GROUPED, UNKNOWN = 0, 1, 2
# Columns: images, retained, retained and correct, retained and in the right group.
COLUMNS = 4
# The most confident fraction of the images of grouped classes, and the name of the accuracy on it.
MOST_CONFIDENT, CONFIDENT_ACCURACY = 0.2, "surest_accuracy/grouped"


def pseudo_label_table(pseudo: PseudoLabels, truth: Tensor, group_ids: Tensor, is_grouped: Tensor) -> Tensor:
    """Return the counts (3, 4) of one head on one step.

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
    """
    is_grouped = shares_group(group_ids)
    described = {}
    for head, pseudo in pseudo_labels.items():
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


class Meters:
    """Sums since the last log line. They are part of a checkpoint, so that resuming a run changes no line."""

    def __init__(self, group_ids: Tensor) -> None:
        self._group_ids = group_ids
        self._is_grouped = shares_group(group_ids)
        self.sums: dict[str, Tensor] = {}

    def add(self, result: StepResult, truth: Tensor) -> None:
        """Add one step without waiting for the device."""
        self._add("steps", torch.ones((), device=truth.device))
        self._add("loss", result.total.detach())
        for name, loss in result.losses.items():
            self._add(f"loss/{name}", loss.detach())
        for name, value in result.metrics.items():
            self._add(name, value.detach())
        for head, pseudo in result.pseudo_labels.items():
            self._add(f"pseudo/{head}", pseudo_label_table(pseudo, truth, self._group_ids, self._is_grouped))

    def _add(self, name: str, value: Tensor) -> None:
        self.sums[name] = self.sums[name] + value if name in self.sums else value.clone().float()

    def line(self) -> dict[str, float | None]:
        """Return the means over the added steps and start again from zero."""
        sums = {name: value.cpu() for name, value in self.sums.items()}
        steps = float(sums.pop("steps", torch.ones(())))
        described: dict[str, float | None] = {}
        for name, value in sums.items():
            if value.ndim == 0:
                described[name] = float(value) / steps
            else:
                described |= {f"{name}/{key}": number for key, number in describe_table(value).items()}
        self.sums = {}
        return described

    def state(self, processes: Processes) -> dict[str, Tensor]:
        """Return the sums of every process, by name: (P, ...)."""
        if not self.sums:
            return {}
        names, values = list(self.sums), list(self.sums.values())
        rows = [unpack(row, values) for row in stack_over_processes(pack(values), processes)]
        return {name: torch.stack([row[i] for row in rows]) for i, name in enumerate(names)}

    def load(self, state: Mapping[str, Tensor], processes: Processes) -> None:
        """Load this process's sums; if the number of processes has changed, an even share of all sums."""
        placed = {name: rows.to(self._group_ids.device) for name, rows in state.items()}
        self.sums = {name: _own_share(rows, processes) for name, rows in placed.items()}


def _own_share(rows: Tensor, processes: Processes) -> Tensor:
    """Return this process's part of sums (P, ...): scalars are means over images, tables are counts of images."""
    if len(rows) == processes.world_size:
        return rows[processes.rank]
    return rows.mean(0) if rows.ndim == 1 else rows.sum(0) / processes.world_size


class DivergenceMonitor:
    """Records on the device the first step at which each loss term was not finite."""

    def __init__(self) -> None:
        self._first: dict[str, Tensor] = {}

    def check(self, result: StepResult, step: int) -> None:
        for name, loss in result.losses.items():
            bad = torch.where(torch.isfinite(loss.detach()), -1, step)
            seen = self._first.get(name)
            self._first[name] = bad if seen is None else torch.where(seen >= 0, seen, bad)

    def first_divergence(self) -> tuple[list[str], int] | None:
        """Return the terms that diverged first and the step, or None. This waits for the device."""
        broken = {name: int(step) for name, step in self._first.items() if int(step) >= 0}
        if not broken:
            return None
        first = min(broken.values())
        return [name for name, step in broken.items() if step == first], first
