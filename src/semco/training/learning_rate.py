"""The learning rate as a function of the step, so that it needs no saved state."""

from __future__ import annotations

import math

from semco.config import OptimConfig
from semco.models.tuning import Tune

# Steps and learning rate: the best rate for short runs (docs/lab/results.md), and the paper's 300 epochs.
SHORT, LONG = (500, 0.1), (307_200, 0.03)
# For heads that start from a linear probe, by what is trained; a backbone that starts from loaded weights gets a part
# of the heads' rate. At the rate of the heads alone, training all layers destroys them (docs/lab/pretrained.md).
PRETRAINED_HEADS = {"heads": 0.03, "top": 0.03, "all": 0.003}
PRETRAINED_BACKBONE_PART = 0.1


def highest_learning_rate(config: OptimConfig, total_steps: int, pretrained: Tune | None = None) -> float:
    """Return the rate between warm-up and decay; "auto" interpolates linearly in the logarithms of steps and rate.

    ``pretrained``: what is trained of a network with loaded weights; None if it starts from random ones.
    """
    if config.lr != "auto":
        return config.lr
    if pretrained is not None:
        return PRETRAINED_HEADS[pretrained]
    (short, high), (long, low) = SHORT, LONG
    steps = min(max(total_steps, short), long)
    return float(high * (low / high) ** (math.log(steps / short) / math.log(long / short)))


def highest_backbone_rate(config: OptimConfig, total_steps: int, pretrained: Tune | None = None) -> float:
    """Return the same for the backbone."""
    if config.backbone_lr != "auto":
        return config.backbone_lr
    heads = highest_learning_rate(config, total_steps, pretrained)
    return heads if pretrained is None else PRETRAINED_BACKBONE_PART * heads


def learning_rate(config: OptimConfig, step: int, total_steps: int, highest: float) -> float:
    """Return the rate at ``step``, counted from 0: linear warm-up to ``highest``, then the chosen decay.

    ``cosine`` falls to 0 at the end; ``cosine_7_16`` is FixMatch's cos(7 pi t / 16 T), which ends at about a fifth.
    """
    warmup = round(config.warmup * total_steps)
    if step < warmup:
        return highest * (step + 1) / warmup
    fraction = (step - warmup) / max(1, total_steps - warmup)
    if config.schedule == "constant":
        return highest
    if config.schedule == "cosine_7_16":
        return highest * math.cos(7 * math.pi * fraction / 16)
    return highest * 0.5 * (1 + math.cos(math.pi * fraction))
