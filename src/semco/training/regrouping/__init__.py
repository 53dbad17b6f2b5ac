"""Groups of classes that change while a run trains (``labels.groups=learned``).

It happens between two steps, on the host, at the moments of `semco.pseudo_labels.learned_groups`. The groups before a
step are a function of the step and of what is in the checkpoint, so a resumed run changes them at the same steps.

Shapes: K classes.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from semco.config import LabelsConfig
from semco.distributed.processes import Processes, broadcast_from_main
from semco.labels.learned import describe_change, learned_group_ids
from semco.pseudo_labels.learned_groups import MOMENTS, NONE, LearnedGroups, change_choices, save_choices
from semco.training.observer import Observer
from semco.training.statistics import Meters

Ids = NDArray[np.int64]


def learned_groups(method: nn.Module) -> LearnedGroups | None:
    """Return the groups of a method, if they may change."""
    groups = getattr(method, "groups", None)
    return groups if isinstance(groups, LearnedGroups) else None


def moments(total_steps: int) -> list[int]:
    """Return the number of finished steps after which the groups are recomputed."""
    return [math.ceil(fraction * total_steps) for fraction in MOMENTS]


def group_changes(groups: LearnedGroups, total_steps: int) -> list[dict[str, int | str]]:
    """Return the changes so far, each with its step and a text."""
    before: Ids = groups.named.numpy(force=True)
    changes: list[dict[str, int | str]] = []
    for step, after in zip(moments(total_steps), groups.history.numpy(force=True), strict=True):
        if after[0] != NONE:
            text = describe_change(groups.class_names, before, after)
            changes += [{"step": step, "change": text}] if text else []
            before = after
    return changes


class Regrouping:
    """Recomputes the groups of a method when it is time; nothing for methods whose groups stay."""

    def __init__(
        self,
        method: nn.Module,
        labels: LabelsConfig,
        total_steps: int,
        observer: Observer,
        processes: Processes,
    ) -> None:
        self._method, self._labels, self._observer, self._processes = method, labels, observer, processes
        self._moments = moments(total_steps)
        self._groups = learned_groups(method)
        if self._groups is not None:
            save_choices(self._policy)

    @property
    def _policy(self) -> nn.Module:
        """The threshold policy whose choices are the groups."""
        return self._method.get_submodule("semantic_policy")

    def restore(self, meters: Meters) -> None:
        """Use the groups of a checkpoint that was loaded."""
        if self._groups is not None:
            meters.regroup(self._groups.of_class)

    def regroup_if_due(self, step: int, meters: Meters) -> None:
        """Recompute the groups if ``step`` finished steps are one of the moments."""
        groups = self._groups
        if groups is None or step not in self._moments:
            return
        old, new = groups.of_class.numpy(force=True).copy(), broadcast_from_main(self._new_ids(groups), self._processes)
        change_choices(self._policy, old, new)
        groups.change(torch.from_numpy(new).to(groups.of_class.device), self._moments.index(step))
        meters.regroup(groups.of_class)
        text = describe_change(groups.class_names, old, new)
        self._observer.on_message(f"groups: {text or 'no change'} at step {step}")

    def _new_ids(self, groups: LearnedGroups) -> Ids:
        labels = self._labels
        named, confusion = groups.named.numpy(force=True), groups.confusion.double().numpy(force=True)
        found = learned_group_ids(named, confusion, groups.class_names, labels.together, labels.apart)
        return found if found.max() + 1 >= labels.min_groups else named
