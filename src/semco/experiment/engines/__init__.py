"""What runs the cells of a comparison: processes on this machine, or tasks of Ray; and shards of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from semco.experiment.comparison import Cell, Outcome

OnBegin = Callable[[int, Cell], None]
OnEnd = Callable[[Outcome], None]


class Engine(Protocol):
    """Runs cells, each in a process and a folder of its own, so that one that fails stops no other."""

    def run(self, cells: Sequence[Cell], on_end: OnEnd, on_begin: OnBegin) -> list[Outcome]:
        """Return the outcomes in the order of the cells; a finished run is not repeated, an unfinished one resumed.

        ``on_begin`` is called with the number of a cell, from 1 on, and ``on_end`` with each outcome. A signal stops
        the runs, which save their state, and no other run is started: `semco.training.signals.Stopped`.
        """
        ...
