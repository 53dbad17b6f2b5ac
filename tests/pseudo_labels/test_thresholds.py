from __future__ import annotations

import torch

from semco.pseudo_labels import FixedThreshold, one_hot_pseudo_labels


def test_fixed_threshold_includes_the_threshold() -> None:
    confidence = torch.tensor([0.25, 0.5, 0.75])
    mask = FixedThreshold(0.5).mask(confidence, torch.zeros(3, dtype=torch.int64), torch.zeros(3, 2))
    assert mask.tolist() == [0.0, 1.0, 1.0]
    assert mask.dtype == confidence.dtype


def test_one_hot_pseudo_labels_by_hand() -> None:
    # Softmaxes: (.96, .02, .02), (.1, .8, .1), (0, 0, 1).
    logits = torch.tensor([[0.96, 0.02, 0.02], [0.1, 0.8, 0.1], [1e-9, 1e-9, 1.0]]).log().requires_grad_()
    pseudo = one_hot_pseudo_labels(logits, torch.arange(3), FixedThreshold(0.95))
    assert pseudo.labels.tolist() == [0, 1, 2]
    assert pseudo.mask.tolist() == [1.0, 0.0, 1.0]
    torch.testing.assert_close(pseudo.confidence, torch.tensor([0.96, 0.8, 1.0]))
    assert not pseudo.confidence.requires_grad
    assert not pseudo.mask.requires_grad


def test_a_policy_is_told_before_it_is_asked() -> None:
    class Recording(FixedThreshold):
        def __init__(self) -> None:
            super().__init__(0.5)
            self.seen: list[str] = []

        def update(self, confidence, labels, probabilities, index):  # type: ignore[no-untyped-def]
            assert probabilities.shape == (2, 3)
            assert confidence.shape == labels.shape == index.shape == (2,)
            self.seen.append(f"update {index.tolist()}")

        def mask(self, confidence, labels, probabilities):  # type: ignore[no-untyped-def]
            self.seen.append("mask")
            return super().mask(confidence, labels, probabilities)

    policy = Recording()
    one_hot_pseudo_labels(torch.zeros(2, 3), torch.tensor([7, 4]), policy)
    assert policy.seen == ["update [7, 4]", "mask"]
