"""The one shape of what a measurement returns, and the one table that is made of it."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from benchmarks.peak import cpu_seconds


@dataclass(frozen=True)
class Row:
    """What something costs, what a user would take instead, and what the machine's limit would cost."""

    what: str
    unit: str
    best: float
    median: float | None = None
    alternative: float | None = None
    instead: str = ""
    """What the alternative is."""
    limit: float | None = None
    limited_by: str = ""
    """What the limit is."""

    @property
    def times_better(self) -> float | None:
        return None if self.alternative is None else self.alternative / self.best

    @property
    def share(self) -> float | None:
        """The limit as a part of the cost: 1 cannot be exceeded."""
        return None if self.limit is None else self.limit / self.best

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "times_better": self.times_better, "share": self.share}


def table(rows: Sequence[Row]) -> str:
    """Return the rows as a table in Markdown, with aligned columns."""
    head = ("what", "unit", "ours, best", "median", "instead", "by", "times", "limit", "by", "share of the limit")
    lines = [head, *map(_cells, rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    padded = ["| " + " | ".join(map(str.ljust, line, widths)) + " |" for line in lines]
    return "\n".join([padded[0], "|" + "|".join("-" * (width + 2) for width in widths) + "|", *padded[1:]])


def _cells(row: Row) -> tuple[str, ...]:
    share = "" if row.share is None else f"{row.share:.0%}" if row.share >= 0.1 else f"{row.share:.1%}"
    costs = (_number(row.best), _number(row.median))
    instead = (_number(row.alternative), row.instead, _number(row.times_better))
    return (row.what, row.unit, *costs, *instead, _number(row.limit), row.limited_by, share)


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def cpu_in_turns(ways: Mapping[str, Callable[[], object]], repeats: int) -> dict[str, tuple[float, float]]:
    """Return the best and the median CPU seconds of calls that take turns, so that other load hits all alike."""
    turns = [{name: cpu_seconds(way) for name, way in ways.items()} for _ in range(repeats)]
    return {name: best_and_median([turn[name] for turn in turns]) for name in ways}


def best_and_median(seconds: Sequence[float], factor: float = 1.0) -> tuple[float, float]:
    """Return the least and the median of durations, multiplied by a factor."""
    return factor * min(seconds), factor * statistics.median(seconds)
