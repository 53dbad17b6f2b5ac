"""Engines that run the cells of a comparison: local processes or Ray tasks; and shards of the cells."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from semco.config import Config
from semco.errors import UserError, brief
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


T = TypeVar("T")


@dataclass(frozen=True)
class Shard:
    """Shard number ``index`` of ``count``; numbers start at 1."""

    index: int
    count: int

    @classmethod
    def parse(cls, text: str) -> Shard:
        """Return ``3/8`` as a shard."""
        found = re.fullmatch(r"(\d{1,6})/(\d{1,6})", text)
        index, count = map(int, found.groups()) if found else (0, 0)
        if not 1 <= index <= count:
            raise UserError(f"a shard is i/n with i from 1 to n, such as 3/8, not {brief(text)}.")
        return cls(index, count)

    def of(self, items: Sequence[T]) -> list[T]:
        """Return every ``count``-th item, so that neighbours, which take about as long, are in different shards."""
        return list(items[self.index - 1 :: self.count])


def refuse_to_time(_request: Config, _minutes: float) -> int:
    """Refuse to time steps: machines differ, and all shards of a comparison need the same lengths."""
    raise UserError("the shards of a comparison need one length that is the same on all machines; give the steps.")
