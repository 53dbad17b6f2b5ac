"""What a run reports while it trains."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

MetricsLine = Mapping[str, float | None]


class Observer(Protocol):
    """Receives the progress of a run, for example to show it."""

    def on_loading(self, what: str, done: int, total: int) -> None: ...
    def on_start(self, step: int, total_steps: int) -> None: ...
    def on_step(self, step: int) -> None: ...
    def on_line(self, line: MetricsLine) -> None: ...
    def on_message(self, text: str) -> None: ...


class NullObserver:
    """An observer that ignores everything."""

    def on_loading(self, what: str, done: int, total: int) -> None: ...
    def on_start(self, step: int, total_steps: int) -> None: ...
    def on_step(self, step: int) -> None: ...
    def on_line(self, line: MetricsLine) -> None: ...
    def on_message(self, text: str) -> None: ...


class Observers:
    """Several observers, each of which receives everything, for example a display and a logger of one's own."""

    def __init__(self, *observers: Observer) -> None:
        self._observers = observers

    def on_loading(self, what: str, done: int, total: int) -> None:
        for each in self._observers:
            each.on_loading(what, done, total)

    def on_start(self, step: int, total_steps: int) -> None:
        for each in self._observers:
            each.on_start(step, total_steps)

    def on_step(self, step: int) -> None:
        for each in self._observers:
            each.on_step(step)

    def on_line(self, line: MetricsLine) -> None:
        for each in self._observers:
            each.on_line(line)

    def on_message(self, text: str) -> None:
        for each in self._observers:
            each.on_message(text)


class WithoutLines(Observers):
    """Passes on everything except the metrics; those of a nested run would look like metrics of the outer run."""

    def on_line(self, line: MetricsLine) -> None: ...
