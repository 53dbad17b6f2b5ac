"""Counts of an attack, and how they are shown."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from rich.console import Console
from rich.table import Table

from torture.attack import Outcome


@dataclass
class Kind:
    """Failures of one kind: how many, and the first of them with the command that repeats it."""

    kind: str
    count: int
    case: int
    command: str
    detail: str
    repeated: bool | None = None  # whether the command gave the same failure again; None: not tried


@dataclass
class Tally:
    """The outcomes of an attack."""

    attack: str
    wanted: int
    seed: int
    tried: int = 0
    seconds: float = 0.0
    endings: Counter[str] = field(default_factory=Counter)
    kinds: dict[str, Kind] = field(default_factory=dict)

    @property
    def failed(self) -> int:
        return sum(kind.count for kind in self.kinds.values())

    @property
    def survived(self) -> int:
        return self.tried - self.failed

    def add(self, outcome: Outcome) -> None:
        self.tried += 1
        if outcome.failure is None:
            self.endings[outcome.ending] += 1
            return
        command = f"make torture SEED={self.seed} ONLY={self.attack} CASE={outcome.number}"
        new = Kind(outcome.failure, 0, outcome.number, command, outcome.detail)
        kind = self.kinds.setdefault(outcome.failure, new)
        kind.count += 1
        if outcome.number < kind.case:  # workers do not end in order; the first case counts
            kind.case, kind.command, kind.detail = outcome.number, command, outcome.detail

    def as_dict(self) -> dict[str, Any]:
        return {
            "attack": self.attack,
            "wanted": self.wanted,
            "tried": self.tried,
            "survived": self.survived,
            "failed": self.failed,
            "seconds": round(self.seconds, 1),
            "endings": dict(self.endings.most_common()),
            "failures": [asdict(kind) for kind in self.kinds.values()],
        }


def print_json(tallies: Sequence[Tally], seed: int) -> None:
    text = json.dumps({"seed": seed, "attacks": [tally.as_dict() for tally in tallies]}, indent=2)
    Console(soft_wrap=True).print(text, markup=False, highlight=False)


def print_tables(tallies: Sequence[Tally], *, with_details: bool) -> None:
    """Print the counts of every attack, then each kind of failure with its first case."""
    table = Table("attack")
    for name in ("tried", "survived", "failed", "seconds"):
        table.add_column(name, justify="right")
    table.add_column("survivors")
    for tally in tallies:
        tried = f"{tally.tried:,}" + (f" of {tally.wanted:,}" if tally.tried < tally.wanted else "")
        numbers = (tried, f"{tally.survived:,}", f"{tally.failed:,}", f"{tally.seconds:,.0f}")
        table.add_row(tally.attack, *numbers, ", ".join(f"{n:,} {word}" for word, n in tally.endings.most_common()))
    Console(width=120).print(table)
    plain = Console(soft_wrap=True, markup=False, highlight=False)
    for tally in tallies:
        for kind in sorted(tally.kinds.values(), key=lambda kind: -kind.count):
            repeated = {True: "", False: " (did not fail again)", None: ""}[kind.repeated]
            plain.print(f"\n{tally.attack}: {kind.count:,} x {kind.kind}\n    {kind.command}{repeated}")
            lines = kind.detail.rstrip().splitlines()
            for line in lines if with_details else [] if kind.kind.startswith("hang") else lines[-1:]:
                plain.print(f"    {line[: 4000 if with_details else 200]}")
