"""Print how much of the pool each head retains in parts of a run, and how much of that is right, in percent.

    python scripts/retained.py --until 100,200,300,400,500 runs/a/fixmatch-seed? runs/a/semco_plus-seed?

A row is a method and a head: the mean over the seeds of the means of their log lines.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from statistics import fmean

HEADS = ("one_hot", "semantic")
Line = Mapping[str, float | None]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--until", default="100,200,300,400,500", help="last step of each part")
    parser.add_argument("runs", nargs="+", type=Path, help="run folders, METHOD-seedN")
    args = parser.parse_args(arguments)
    ends = [int(end) for end in args.until.split(",")]
    methods: dict[str, list[list[Line]]] = {}
    for run in args.runs:
        methods.setdefault(run.name.partition("-seed")[0], []).append(read_lines(run))
    for (method, runs), head in product(methods.items(), HEADS):
        if f"pseudo/{head}/ratio" in runs[0][-1]:
            cells = [describe(runs, head, start, end) for start, end in zip([0, *ends], ends, strict=False)]
            print(f"| {method}, {head}, {len(runs)} runs | " + " | ".join(cells) + " |")


def read_lines(run: Path) -> list[Line]:
    """Return the log lines of a run."""
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def describe(runs: Sequence[Sequence[Line]], head: str, start: int, end: int) -> str:
    """Return the share that is retained after step ``start`` up to ``end``, and the share of it that is right."""
    kinds = ("ratio", "accuracy")
    return ", ".join(_percent([_mean(run, f"pseudo/{head}/{kind}", start, end) for run in runs]) for kind in kinds)


def _mean(run: Sequence[Line], key: str, start: int, end: int) -> float | None:
    """Return the mean of the lines that have a value: without retained images, none of them is right or wrong."""
    found = [line.get(key) for line in run if start < (line["step"] or 0) <= end]
    known = [value for value in found if value is not None]
    return fmean(known) if known else None


def _percent(values: Sequence[float | None]) -> str:
    known = [value for value in values if value is not None]
    return f"{100 * fmean(known):.0f}" if known else "–"


if __name__ == "__main__":
    main()
