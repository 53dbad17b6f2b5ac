"""Fixed thresholds, and when a policy learns."""

from __future__ import annotations

import torch
from torch import Tensor

from semco.pseudo_labels import FixedThreshold, one_hot_pseudo_labels, update_policy
from semco.types import Progress


def test_fixed_threshold_includes_the_threshold() -> None:
    scores = torch.tensor([[0.25, 0.2], [0.5, 0.1], [0.2, 0.75]])
    weights = FixedThreshold(0.5).weights(scores)
    assert weights.tolist() == [0.0, 1.0, 1.0]
    assert weights.dtype == scores.dtype


def test_one_hot_pseudo_labels_by_hand() -> None:
    # Softmaxes: (.96, .02, .02), (.1, .8, .1), (0, 0, 1).
    logits = torch.tensor([[0.96, 0.02, 0.02], [0.1, 0.8, 0.1], [1e-9, 1e-9, 1.0]]).log().requires_grad_()
    pseudo = one_hot_pseudo_labels(logits, FixedThreshold(0.95))
    assert pseudo.class_ids.tolist() == [0, 1, 2]
    assert pseudo.weights.tolist() == [1.0, 0.0, 1.0]
    torch.testing.assert_close(pseudo.confidence, torch.tensor([0.96, 0.8, 1.0]))
    assert not pseudo.confidence.requires_grad
    assert not pseudo.weights.requires_grad


class TwoProcesses:
    """Peers: the other process has the same rows, plus one."""

    def gather(self, rows: Tensor) -> Tensor:
        return torch.cat([rows, rows + 1])

    def mean(self, values: Tensor) -> Tensor:
        return values


class Recording(FixedThreshold):
    """A policy that remembers what it was updated with."""

    def __init__(self) -> None:
        super().__init__(0.5)
        self.seen: list[tuple[list[list[float]], list[int]]] = []

    def update(self, scores: Tensor, index: Tensor) -> None:
        assert not torch.is_grad_enabled()
        self.seen.append((scores.tolist(), index.tolist()))


def test_an_adaptive_policy_learns_from_the_whole_step() -> None:
    policy, progress = Recording(), Progress(0, 1, 1, torch.Generator(), TwoProcesses())
    policy.is_adaptive = True  # type: ignore[misc]
    update_policy(policy, torch.tensor([[0.0, 1.0]]), torch.tensor([7]), progress)
    assert policy.seen == [([[0.0, 1.0], [1.0, 2.0]], [7, 8])]


def test_nothing_is_gathered_for_a_fixed_threshold() -> None:
    policy = Recording()
    update_policy(policy, torch.zeros(1, 2), torch.tensor([7]), Progress(0, 1, 1, torch.Generator(), TwoProcesses()))
    assert policy.seen == []
