"""When a run logs, validates and saves, and its learning rate at each step."""

from __future__ import annotations

import math
from dataclasses import dataclass

from semco.config import Config, OptimConfig


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


@dataclass(frozen=True)
class Schedule:
    """Numbers of steps between two events of a kind. Everything but ``refresh`` also happens at the last step."""

    log: int
    validate: int
    save: int
    refresh: int
    total: int

    @classmethod
    def of(cls, config: Config, steps_per_pass: int) -> Schedule:
        """Return the schedule of a run; ``steps_per_pass`` is the number of steps of a pass over the pool."""
        training, total = config.training, config.training.total_steps
        return cls(
            log=training.log_every,
            validate=training.validate_every,
            save=training.checkpoint_every,
            # Once per pass, as methods that relabel the pool expect, and often enough to matter in short runs.
            refresh=max(1, min(steps_per_pass, total // 10)),
            total=total,
        )

    def is_due(self, every: int, step: int) -> bool:
        """Return whether an event with this interval happens after ``step`` finished steps."""
        return step % every == 0 or step == self.total
