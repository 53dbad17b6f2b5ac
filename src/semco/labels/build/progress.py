"""How long steps report their progress."""

from __future__ import annotations

from collections.abc import Callable

# report(stage, done, total); total is None when it is not known.
Report = Callable[[str, int, int | None], None]


def no_report(stage: str, done: int, total: int | None) -> None:
    """Ignore the progress."""
