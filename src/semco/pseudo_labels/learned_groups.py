"""Groups that follow what the model itself confuses (``labels.groups=learned``).

During the steps `LearnedGroups` only collects the confusion, on the device. Between steps, at a few `MOMENTS` of a run,
the training loop recomputes the groups (`semco.labels.learned`). Every buffer keeps its shape whatever the number of
groups is: there are K group ids, some of which no class has, and all changes are made in place.

Shapes: B labelled images, U unlabelled images, N both, K classes, C = K choices of the semantic head, T moments.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from semco.pseudo_labels.one_hot import one_hot_rows
from semco.pseudo_labels.semantic import ClassGroups
from semco.types import Outputs, Progress, PseudoLabels, Task

# When the groups are recomputed, as fractions of the run. Before the first, the model knows too little.
MOMENTS = (0.25, 0.5, 0.75)
# Decay of the confusion per step: about the last hundred steps count.
DECAY = 0.99
NONE = -1  # in `history`: not yet; in records of choices: no choice


class LearnedGroups(ClassGroups):
    """Groups that can change, and the confusion from which they are learned. All of it is part of a checkpoint."""

    named: Tensor  # (K,) int64, the groups of the names
    confusion: Tensor  # (K, K) float32, decayed sums: given class, probability of each class
    history: Tensor  # (T, K) int64, the groups from each moment on

    def __init__(self, of_class: Tensor, class_names: Sequence[str]) -> None:
        super().__init__(of_class)
        self.class_names, size = tuple(class_names), len(of_class)
        self.register_buffer("of_class", self.of_class)  # registered again, as a part of checkpoints
        self.register_buffer("sizes", of_class.bincount(minlength=size))
        self.register_buffer("named", of_class.clone(), persistent=False)
        self.register_buffer("confusion", torch.zeros(size, size))
        self.register_buffer("history", torch.full((len(MOMENTS), size), NONE))

    @torch.no_grad()
    def observe(
        self,
        labelled: Outputs,
        class_ids: Tensor,
        strong: Outputs,
        pseudo_labels: Mapping[str, PseudoLabels],
        progress: Progress,
    ) -> None:
        """Add what the one-hot head gives to each class, on images of a known class (B,) or a retained pseudo-label.

        Pseudo-labels come from the weak views, and the probabilities from the strong views of the same images.
        """
        heads = list(pseudo_labels.values())
        given = torch.cat([class_ids, *(each.class_ids for each in heads)])
        counted = torch.cat([torch.ones_like(labelled.logits[:, 0]), *(each.weights for each in heads)])
        logits = torch.cat([labelled.logits, *(strong.logits for _ in heads)])
        probabilities = progress.gather(logits.detach().float().softmax(dim=-1))  # (N, K)
        given, counted = progress.gather(given), progress.gather(counted.float())
        rows = one_hot_rows(given, len(self.of_class), torch.float32) * counted[:, None]
        self.confusion.addmm_(rows.T, probabilities, beta=DECAY)

    def change(self, group_ids: Tensor, moment: int) -> None:
        """Set the groups (K,) from a moment of the run on."""
        self.of_class.copy_(group_ids)
        self.sizes.copy_(group_ids.bincount(minlength=len(group_ids)))
        self.history[moment].copy_(group_ids)


def class_groups(task: Task) -> ClassGroups:
    """Return the groups of a task, which change during the run if the task says so."""
    return LearnedGroups(task.group_ids, task.class_names) if task.learns_groups else ClassGroups(task.group_ids)


def save_choices(policy: nn.Module) -> None:
    """Make everything that depends on the choices of a policy a part of checkpoints, because choices will change."""
    for part, name in _declared(policy, "per_choice_buffers"):
        part.register_buffer(name, getattr(part, name))


def change_choices(policy: nn.Module, old: NDArray[np.int64], new: NDArray[np.int64]) -> None:
    """Carry what a policy has learned over from the groups ``old`` (K,) to the groups ``new`` (K,), in place.

    A group passes what was counted for it on to its classes in equal parts. An image whose last choice was a group that
    was split has no last choice.
    """
    passed = np.zeros((len(old), len(old)))  # (C, C), the part of an old choice that goes to a new one
    np.add.at(passed, (old, new), 1 / np.bincount(old)[old])
    is_whole = np.isclose(passed.max(axis=1), 1)
    successor = torch.from_numpy(np.where(is_whole, passed.argmax(axis=1), NONE))
    shares = torch.from_numpy(passed)
    for part, name in _declared(policy, "per_choice_buffers"):
        values = getattr(part, name)  # (..., C)
        values.copy_(values.double().cpu() @ shares)
    for part, name in _declared(policy, "choice_buffers"):
        choices = getattr(part, name)
        choices.copy_(torch.where(choices.cpu() == NONE, NONE, successor[choices.cpu()]))


def _declared(policy: nn.Module, kind: str) -> list[tuple[nn.Module, str]]:
    """Return the buffers of a kind that a policy and its parts declare, each with its module."""
    return [(part, name) for part in policy.modules() for name in getattr(part, kind, ())]
