"""Which pseudo-labels to trust: one policy a head.

Shapes: U unlabelled images, K classes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from torch import Tensor, nn


class ThresholdPolicy(nn.Module, ABC):
    """Weights in [0, 1] for pseudo-labels. What a policy learns during a run lives in its buffers.

    Every step calls `update` with the head's statements about the weak views, then `mask` with the same.
    """

    def update(self, confidence: Tensor, labels: Tensor, probabilities: Tensor, index: Tensor) -> None:
        """Learn from this step; ``index`` (U,) are places in the unlabelled pool. Nothing, by default."""

    @abstractmethod
    def mask(self, confidence: Tensor, labels: Tensor, probabilities: Tensor) -> Tensor:
        """Confidence (U,), labels (U,) int64, probabilities (U, K) -> weights (U,); 0 discards a sample."""


class FixedThreshold(ThresholdPolicy):
    """1 where the confidence reaches a threshold, else 0: FixMatch, and Eq. 4 and 7 of SemCo."""

    def __init__(self, threshold: float) -> None:
        super().__init__()
        self.threshold = threshold

    def mask(self, confidence: Tensor, labels: Tensor, probabilities: Tensor) -> Tensor:  # noqa: ARG002
        return (confidence >= self.threshold).to(confidence.dtype)
