"""What is worth logging, summed on the device; the host reads it once a log line.

Shapes: U unlabelled images, K classes, P processes.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from semco.training.distributed import Processes, gather, pack, unpack
from semco.types import PseudoLabels, StepResult

# Rows of a pseudo-label table: what the image truly shows is a class of its own, one of a group, or not known.
ALONE, GROUPED, UNKNOWN = 0, 1, 2
# Columns: images, retained, retained and right, retained and in the right group.
COLUMNS = 4
# Part of the images of grouped classes that a head is surest of, and what its accuracy there is called.
SUREST, SUREST_GROUPED = 0.2, "surest_accuracy/grouped"


def pseudo_label_table(pseudo: PseudoLabels, truth: Tensor, groups: Tensor, grouped: Tensor) -> Tensor:
    """Counts (3, 4) of one head on one step. ``truth`` (U,) is -1 where unknown; ``groups``, ``grouped`` are (K,)."""
    known = truth >= 0
    safe = truth.clamp(min=0)
    row = torch.where(known, grouped[safe].long(), UNKNOWN)  # (U,)
    mask = pseudo.mask.float()
    right = mask * ((pseudo.labels == truth) & known)
    right_group = mask * ((groups[pseudo.labels] == groups[safe]) & known)
    columns = torch.stack([torch.ones_like(mask), mask, right, right_group], dim=1)  # (U, 4)
    return torch.nn.functional.one_hot(row, 3).float().T @ columns


def describe_table(table: Tensor) -> dict[str, float | None]:
    """Ratio, accuracy and group accuracy of the retained, over all images and for grouped and other classes."""
    described: dict[str, float | None] = {}
    known = table[ALONE] + table[GROUPED]
    parts = {"": (table.sum(0), known), "/grouped": (table[GROUPED],) * 2, "/ungrouped": (table[ALONE],) * 2}
    for suffix, (everything, checked) in parts.items():
        images, retained, _, _ = everything.tolist()
        _, judged, right, right_group = checked.tolist()
        described[f"ratio{suffix}"] = retained / images if images else None
        described[f"accuracy{suffix}"] = right / judged if judged else None
        described[f"group_accuracy{suffix}"] = right_group / judged if judged else None
    return described


def describe_pool(
    said: Mapping[str, PseudoLabels], truth: Tensor, groups: Tensor
) -> dict[str, dict[str, float | None]]:
    """`describe_table` of each head's pseudo-labels for a whole pool; ``truth`` is (U,), ``groups`` (K,).

    Heads retain more or less by their thresholds; by the accuracy of the surest they can be compared.
    """
    grouped = shares_group(groups)
    described = {}
    for head, one in said.items():
        surest = surest_accuracy(one, truth, grouped)
        described[head] = {**describe_table(pseudo_label_table(one, truth, groups, grouped)), SUREST_GROUPED: surest}
    return described


def surest_accuracy(said: PseudoLabels, truth: Tensor, counts: Tensor, part: float = SUREST) -> float | None:
    """Of the images that truly show a class that ``counts`` (K,): how often the head is right among its surest part."""
    judged = ((truth >= 0) & counts[truth.clamp(min=0)]).nonzero()[:, 0]
    order = said.confidence[judged].argsort(descending=True, stable=True)
    surest = judged[order[: round(part * len(judged))]]
    return float((said.labels[surest] == truth[surest]).float().mean()) if len(surest) else None


def shares_group(groups: Tensor) -> Tensor:
    """(K,) whether a class has company in its group."""
    return torch.bincount(groups)[groups] > 1


class Meters:
    """Sums since the last log line. Its tensors are part of a checkpoint, so that resuming changes no line."""

    def __init__(self, groups: Tensor) -> None:
        self._groups = groups
        self._grouped = shares_group(groups)
        self.sums: dict[str, Tensor] = {}

    def add(self, result: StepResult, truth: Tensor) -> None:
        """Take in one step without waiting for the device."""
        self._add("steps", torch.ones((), device=truth.device))
        self._add("loss", result.total.detach())
        for name, loss in result.losses.items():
            self._add(f"loss/{name}", loss.detach())
        for name, value in result.metrics.items():
            self._add(name, value.detach())
        for head, pseudo in result.pseudo_labels.items():
            self._add(f"pseudo/{head}", pseudo_label_table(pseudo, truth, self._groups, self._grouped))

    def _add(self, name: str, value: Tensor) -> None:
        self.sums[name] = self.sums[name] + value if name in self.sums else value.clone().float()

    def line(self) -> dict[str, float | None]:
        """Means over the steps taken in; starts anew."""
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
        """The sums of every process, by name: (P, ...)."""
        if not self.sums:
            return {}
        names, values = list(self.sums), list(self.sums.values())
        rows = [unpack(row, values) for row in gather(pack(values), processes)]
        return {name: torch.stack([row[i] for row in rows]) for i, name in enumerate(names)}

    def load(self, state: Mapping[str, Tensor], processes: Processes) -> None:
        """Take up one's own sums; where the number of processes has changed, an even share of all."""
        placed = {name: rows.to(self._groups.device) for name, rows in state.items()}
        self.sums = {name: _own(rows, processes) for name, rows in placed.items()}


def _own(rows: Tensor, processes: Processes) -> Tensor:
    """Of sums (P, ...): scalars are means over images and steps, tables are counts of images."""
    if len(rows) == processes.world_size:
        return rows[processes.rank]
    return rows.mean(0) if rows.ndim == 1 else rows.sum(0) / processes.world_size


class FiniteWatch:
    """Remembers on the device the first step at which each loss term was not finite."""

    def __init__(self) -> None:
        self._first: dict[str, Tensor] = {}

    def look(self, result: StepResult, step: int) -> None:
        for name, loss in result.losses.items():
            bad = torch.where(torch.isfinite(loss.detach()), -1, step)
            seen = self._first.get(name)
            self._first[name] = bad if seen is None else torch.where(seen >= 0, seen, bad)

    def culprits(self) -> tuple[list[str], int] | None:
        """The terms that broke first and the step, or None. This waits for the device."""
        broken = {name: int(step) for name, step in self._first.items() if int(step) >= 0}
        if not broken:
            return None
        first = min(broken.values())
        return [name for name, step in broken.items() if step == first], first
