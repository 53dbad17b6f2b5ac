"""Engines that run the cells of a comparison: local processes or Ray tasks; and shards of the cells."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from semco.experiment.comparison import Cell, Outcome

OnBegin = Callable[[int, Cell], None]
OnEnd = Callable[[Outcome], None]


class Engine(Protocol):
    """Runs cells, each in its own process and folder, so that a failure does not affect the others."""

    def run(self, cells: Sequence[Cell], on_end: OnEnd, on_begin: OnBegin) -> list[Outcome]:
        """Return the outcomes in the order of the cells; finished runs are skipped, unfinished ones resumed.

        ``on_begin`` is called with the number of a cell, from 1 on, and ``on_end`` with each outcome. A signal stops
        the runs, which save their state, and no other run is started: `semco.training.signals.Stopped`.
        """
        ...
