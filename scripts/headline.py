"""Print the first table of README.md: the linear probe and the semantic probe on photos, means over seeds.

    python scripts/headline.py --birds birds-40 --out runs/headline

Without ``--birds``, a folder that is not part of the package (docs/pretrained.md), only the row of the bundled fruit.
Started again, it skips the runs that are finished.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean

from semco.experiment.comparison import Outcome, make_cells, parse_seeds
from semco.experiment.engines.local import LocalEngine
from semco.report.tables import standard_error

PROBE, OURS = "linear_probe", "semantic_probe"
BIRDS, FRUIT = "40 species of birds, 1,200 photos, class attributes", "14 kinds of fruit, 420 photos, class names"
LABELS_PER_CLASS = 5
Accuracies = Mapping[str, Mapping[int, float]]  # of each method, by seed


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", default="0,1,2,3,4", help="one run of each method per seed")
    parser.add_argument("--birds", type=Path, help="the folder of birds")
    parser.add_argument("--out", type=Path, required=True, help="folder of the runs")
    args = parser.parse_args(arguments)
    sources = ({BIRDS: str(args.birds)} if args.birds else {}) | {FRUIT: "fruit-mini"}
    seeds = parse_seeds(args.seeds)
    rows = {title: train(source, seeds, args.out / Path(source).name) for title, source in sources.items()}
    print("\n".join(table(rows, len(seeds))))


def train(source: str, seeds: Sequence[int], out: Path) -> Accuracies:
    """Run both methods with every seed and return the test accuracies."""
    values = {"data": {"source": source, "labels_per_class": LABELS_PER_CLASS, "validation": "none"}}
    cells = make_cells([PROBE, OURS], seeds, out, values, recipe="photos")
    outcomes = LocalEngine(jobs=1).run(cells, on_end=lambda outcome: print(outcome.cell.name, file=sys.stderr))
    return {name: {o.cell.seed: _accuracy(o) for o in outcomes if o.cell.variant == name} for name in (PROBE, OURS)}


def _accuracy(outcome: Outcome) -> float:
    if outcome.result is None or outcome.result.test_accuracy is None:
        raise SystemExit(f"{outcome.cell.name} failed: {outcome.problem}")
    return outcome.result.test_accuracy


def table(rows: Mapping[str, Accuracies], seeds: int) -> list[str]:
    """Return the lines of the table; the last column is the mean of the differences seed by seed."""
    title = f"{LABELS_PER_CLASS} labels per class, {seeds} seeds, test accuracy"
    lines = [_row([title, "linear probe", "SemCo's semantic probe", "difference, paired"]), "|---|---|---|---|"]
    for name, accuracies in rows.items():
        probe, ours = accuracies[PROBE], accuracies[OURS]
        error = standard_error([ours[seed] - probe[seed] for seed in ours])
        means = [100 * fmean(values.values()) for values in (probe, ours)]
        difference = f"{means[1] - means[0]:+.1f}" + (f" ± {100 * error:.1f}" if error is not None else "")
        lines.append(_row([name, f"{means[0]:.1f}", f"**{means[1]:.1f}**", difference]))
    return lines


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


if __name__ == "__main__":
    main()
