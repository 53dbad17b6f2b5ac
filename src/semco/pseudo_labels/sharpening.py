"""Sharpening of distributions.

Shapes: N images, K classes.
"""

from __future__ import annotations

from torch import Tensor


def sharpen(probabilities: Tensor, temperature: float) -> Tensor:
    """Return p_k^(1/T) / sum_j p_j^(1/T) (MixMatch, Eq. 7): (N, K); T = 1 changes nothing, T -> 0 is one-hot."""
    # Computed in logarithms, because p^(1/T) underflows for a small T. A probability of 0 stays 0.
    return (probabilities.log() / temperature).softmax(dim=-1)
