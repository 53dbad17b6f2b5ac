"""Moving averages whose memory grows with the run, so that short runs are not left where their averages began.

The averaged weights follow the same rule, in numbers of the host (`semco.training.ema`).
"""

from __future__ import annotations

from torch import Tensor


def update_weight(updates: Tensor, least: float) -> Tensor:
    """What the n-th update weighs, () int64 -> () float32: 9 / (9 + n), and never less than ``least``.

    A tensor, so that a GPU is not waited for.
    """
    return (9.0 / (9.0 + updates)).clamp(min=least)
