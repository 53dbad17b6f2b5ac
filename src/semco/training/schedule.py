"""At which steps a run logs, validates, saves and refreshes its method."""

from __future__ import annotations

from dataclasses import dataclass

from semco.config import Config


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
