"""All measurements of docs/speed.md in one go, each in a process of its own, and their tables."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from benchmarks.child import child_failed
from benchmarks.rows import Row, table
from benchmarks.scale import describe_superlinear_growth, draw_growth, growth_table
from benchmarks.worker import worker_environment
from semco.errors import UserError

GROWTH = "scale"
MEASUREMENTS: dict[str, Sequence[str]] = {
    "start": (),
    "views at 32 pixels": ("augment", "--size", "32"),
    "views at 96 pixels": ("augment", "--size", "96"),
    "step": (),
    "tune": (),
    "engines": ("engines", "--threads", "1"),
    "features": (),
    "predict": ("predict", "--photos", "64"),
    "serve": (),
    "labels": (),
    GROWTH: (),
}


@dataclass
class Measured:
    """The rows of all measurements, the growth, and one sentence for each measurement that failed."""

    rows: list[Row] = field(default_factory=list)
    growth: dict[str, Any] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)

    def text(self) -> str:
        """Return the tables and sentences."""
        parts = [table(self.rows)] if self.rows else []
        if self.growth:
            parts += [growth_table(self.growth), *describe_superlinear_growth(self.growth)]
        return "\n\n".join([*parts, *self.failures])


def measure_everything(only: Sequence[str], out: Path | None, report: Callable[[str], None]) -> Measured:
    """Run the measurements, or those of some names; one that fails does not end the others."""
    if unknown := [name for name in only if name not in MEASUREMENTS]:
        raise UserError(f"there is no measurement {unknown[0]!r}; choose among {', '.join(MEASUREMENTS)}.")
    measured = Measured()
    for name, arguments in MEASUREMENTS.items():
        if only and name not in only:
            continue
        report(name)
        try:
            found = run_command(name, arguments or (name,))
        except UserError as error:
            measured.failures.append(str(error))
            continue
        if name == GROWTH:
            measured.growth = found
        else:
            measured.rows += [row_from(each) for each in found]
    if out is not None and measured.growth:
        draw_growth(measured.growth, out)
    return measured


def run_command(name: str, arguments: Sequence[str]) -> Any:
    """Return what a command of `benchmarks` prints as JSON."""
    command = [sys.executable, "-m", "benchmarks", *arguments, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, env=worker_environment(2), check=False)
    if done.returncode:
        raise child_failed(name, done.stderr, done.returncode)
    return json.loads(done.stdout)


def row_from(values: dict[str, Any]) -> Row:
    """Return the row of which `Row.to_json` made these values."""
    return Row(**{each.name: values[each.name] for each in fields(Row)})
