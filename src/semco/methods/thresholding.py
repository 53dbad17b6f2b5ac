"""The choice of a threshold policy, for every method that trusts pseudo-labels by their confidence.

Shapes: C choices of a head, which are classes or groups of classes.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field
from torch import Tensor

from semco.config import MethodConfig, Unit
from semco.pseudo_labels import (
    FixedThreshold,
    FlexMatchThreshold,
    FreeMatchThreshold,
    SoftMatchWeights,
    ThresholdPolicy,
)

Rule = Literal["fixed", "flexmatch", "freematch", "softmatch"]


class ThresholdConfig(MethodConfig):
    # Which pseudo-labels to trust: those above a fixed confidence, or by the rule of a later method.
    thresholds: Rule = "fixed"
    # Decay of the running statistics of FreeMatch and SoftMatch.
    threshold_decay: Unit = 0.999
    # Let them follow faster at first, as training.ema_warmup does for the weights: short runs are not their start.
    threshold_warmup: bool = True
    # Weight of FreeMatch's fairness loss.
    lambda_f: float = Field(default=0.01, ge=0)


def build_policy(config: ThresholdConfig, tau: float, sizes: Tensor, pool_size: int) -> ThresholdPolicy:
    """The policy of one head; ``sizes`` (C,) is the number of classes in each of its choices."""
    match config.thresholds:
        case "fixed":
            return FixedThreshold(tau)
        case "flexmatch":
            return FlexMatchThreshold(tau, sizes, pool_size)
        case "freematch":
            return FreeMatchThreshold(config.threshold_decay, sizes, config.threshold_warmup)
        case "softmatch":
            return SoftMatchWeights(config.threshold_decay, sizes, config.threshold_warmup)
