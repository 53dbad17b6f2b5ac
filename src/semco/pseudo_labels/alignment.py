"""Distribution alignment (ReMixMatch, Sec. 3.1).

Shapes: U unlabelled images, K classes, R remembered steps.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


def sharpen(probabilities: Tensor, temperature: float) -> Tensor:
    """Return p_k^(1/T) / sum_j p_j^(1/T) (MixMatch, Eq. 7): (N, K); T = 1 changes nothing, T -> 0 is one-hot."""
    # Computed in logarithms, because p^(1/T) underflows for a small T. A probability of 0 stays 0.
    return (probabilities.log() / temperature).softmax(dim=-1)


# Keeps ratios and logarithms finite for a class that is never predicted, as in the authors' code.
SMALLEST = 1e-6


class DistributionAlignment(nn.Module):
    """Scale predictions so that on average they follow the class distribution of the labelled images.

    The average prediction is the mean over the last R steps, or over all steps so far. Before the first step it is the
    uniform distribution.
    """

    history: Tensor  # (R, K), mean predictions, newest last; 0 for steps that have not happened
    wanted: Tensor  # (K,), p(y)

    def __init__(self, labelled_counts: Tensor, steps: int = 128) -> None:
        super().__init__()
        counts = labelled_counts.float()
        self.register_buffer("wanted", counts / counts.sum(), persistent=False)
        self.register_buffer("history", torch.zeros(steps, len(counts)))

    @torch.no_grad()
    def forward(self, probabilities: Tensor) -> Tensor:
        """Return Normalize(q p(y) / p~(y)) for q (U, K), then remember q."""
        aligned = self.align(probabilities)
        self.remember(probabilities)
        return aligned

    def align(self, probabilities: Tensor, wanted: Tensor | None = None) -> Tensor:
        """Return aligned predictions (U, K) without remembering them; ``wanted`` (K,) takes the place of p(y)."""
        ratio = ((self.wanted if wanted is None else wanted) + SMALLEST) / (self.predicted() + SMALLEST)
        aligned = probabilities * ratio
        return aligned / aligned.sum(dim=-1, keepdim=True)

    def predicted(self) -> Tensor:
        """Return the average prediction p~(y), (K,)."""
        known = (self.history.sum(dim=-1) > 0).sum()
        return torch.where(known > 0, self.history.sum(dim=0) / known.clamp(min=1), 1.0 / len(self.wanted))

    def remember(self, probabilities: Tensor) -> None:
        """Add the mean of predictions (U, K) to the history."""
        mean = probabilities.mean(dim=0, keepdim=True)
        self.history.copy_(torch.cat([self.history[1:], mean]))
