"""The learning rate as a function of the step, so that nothing about it needs saving."""

from __future__ import annotations

import math

from semco.config import OptimConfig


def learning_rate(config: OptimConfig, step: int, total_steps: int) -> float:
    """Linear warm-up, then the chosen decay; ``step`` counts from 0.

    ``cosine`` falls to 0 at the end; ``cosine_7_16`` is FixMatch's cos(7 pi t / 16 T), which ends at about a fifth.
    """
    warmup = round(config.warmup * total_steps)
    if step < warmup:
        return config.lr * (step + 1) / warmup
    part = (step - warmup) / max(1, total_steps - warmup)
    if config.schedule == "constant":
        return config.lr
    if config.schedule == "cosine_7_16":
        return config.lr * math.cos(7 * math.pi * part / 16)
    return config.lr * 0.5 * (1 + math.cos(math.pi * part))
