"""The choice of a threshold policy, for every method that trusts pseudo-labels by their confidence.

Shapes: C choices of a head, which are classes or groups of classes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, TypeVar

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
from semco.types import PseudoLabels

P = TypeVar("P", bound=PseudoLabels)

Rule = Literal["fixed", "flexmatch", "freematch", "softmatch"]


class ThresholdConfig(MethodConfig):
    thresholds: Rule = "fixed"
    """Which pseudo-labels to trust: those above a fixed confidence, or by the rule of a later method."""
    threshold_decay: Unit = 0.999
    """Decay of the running statistics of FreeMatch and SoftMatch."""
    threshold_warmup: bool = True
    """Let the running statistics follow faster at first, as training.ema_warmup does for the weights: short runs
    are not their start."""
    lambda_f: float = Field(default=0.01, ge=0)
    """Weight of FreeMatch's fairness loss."""
    trust: Literal["confidence", "full"] = "full"
    """What pseudo-labels weigh: the square of how sure the one-hot head is of the pool on average (which FreeMatch
    and SoftMatch keep account of; with other thresholds 1), or always 1."""


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


def weighed(pseudo: P, config: ThresholdConfig, policy: ThresholdPolicy) -> P:
    """Pseudo-labels as the losses see them, by the ``policy`` of the one-hot head.

    Adaptive thresholds retain most images from the start, when few labels are right (docs/confidence.md).
    """
    known = policy.mean_confidence if config.trust == "confidence" else None
    return pseudo if known is None else replace(pseudo, mask=pseudo.mask * known.square())
