"""The learning rate as a function of the step, so that it needs no saved state."""

from __future__ import annotations

import math

from semco.config import OptimConfig


def learning_rate(config: OptimConfig, step: int, total_steps: int, highest: float, steps_per_epoch: int) -> float:
    """Return the rate at ``step``, counted from 0: linear warm-up to ``highest``, then the chosen decay.

    ``cosine`` falls to 0 at the end; ``cosine_7_16`` is FixMatch's cos(7 pi t / 16 T), which ends at about a fifth.
    """
    warmup = warmup_steps(config, total_steps, steps_per_epoch)
    if step < warmup:
        return highest * (step + 1) / warmup
    fraction = (step - warmup) / max(1, total_steps - warmup)
    if config.schedule == "constant":
        return highest
    if config.schedule == "cosine_7_16":
        return highest * math.cos(7 * math.pi * fraction / 16)
    return highest * 0.5 * (1 + math.cos(math.pi * fraction))


def warmup_steps(config: OptimConfig, total_steps: int, steps_per_epoch: int) -> int:
    """Return the length of the warm-up: ``warmup_epochs`` if it is given, else ``warmup`` of the run."""
    if config.warmup_epochs is not None:
        return round(config.warmup_epochs * steps_per_epoch)
    return round(config.warmup * total_steps)
