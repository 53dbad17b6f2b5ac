"""Print the first row of docs/results.md: test accuracies on the bundled images, means and standard errors over seeds.

    python scripts/headline.py --seeds 0,1,2 --steps 500 --out runs/headline

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

# The columns. SemCo has the label vectors and the eps of the recipe `paper`.
VARIANTS = {
    "supervised": "supervised",
    "FixMatch": "fixmatch",
    "SemCo": "semco+labels.source=plain+labels.eps=0.2",
    "SemCo+": "semco_plus",
}
BASE, OURS = "FixMatch", "SemCo+"
IMAGE_SIZE, LABELS_PER_CLASS = 14, 4
Accuracies = Mapping[str, Mapping[int, float]]  # of each column, by seed


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", default="0,1,2", help="one run of each method per seed")
    parser.add_argument("--steps", type=int, default=500, help="length of a run")
    parser.add_argument("--backbone", default="wrn-10-1", help="the network")
    parser.add_argument("--out", type=Path, required=True, help="folder of the runs")
    args = parser.parse_args(arguments)
    accuracies = train(parse_seeds(args.seeds), args.steps, args.backbone, args.out)
    print("\n".join(table(accuracies, args.steps)))


def train(seeds: Sequence[int], steps: int, backbone: str, out: Path) -> Accuracies:
    """Run every method with every seed and return the test accuracies."""
    values = {
        "data": {"source": "fashion-mini", "labels_per_class": LABELS_PER_CLASS, "image_size": IMAGE_SIZE},
        "model": {"backbone": backbone},
        "training": {"steps": steps, "batch_size": 32},
    }
    cells = make_cells(list(VARIANTS.values()), seeds, out, values)
    outcomes = LocalEngine(jobs=1).run(cells, on_end=lambda outcome: print(outcome.cell.name, file=sys.stderr))
    return {
        title: {o.cell.seed: _accuracy(o) for o in outcomes if o.cell.variant == v} for title, v in VARIANTS.items()
    }


def _accuracy(outcome: Outcome) -> float:
    if outcome.result is None or outcome.result.test_accuracy is None:
        raise SystemExit(f"{outcome.cell.name} failed: {outcome.problem}")
    return outcome.result.test_accuracy


def table(accuracies: Accuracies, steps: int) -> list[str]:
    """Return the lines of the table; the last column is the mean of the differences seed by seed."""
    ours, base = accuracies[OURS], accuracies[BASE]
    difference = [ours[seed] - base[seed] for seed in ours]
    cells = [_points(list(values.values())) for values in accuracies.values()] + [_points(difference, "+")]
    titles = [f"test accuracy, {len(ours)} seeds, {steps} steps", *accuracies, f"{OURS} - {BASE}, paired"]
    problem = f"10 kinds of clothes, {IMAGE_SIZE} x {IMAGE_SIZE} pixels, {LABELS_PER_CLASS} labels per class"
    return [_row(titles), "|" + "---|" * len(titles), _row([problem, *cells])]


def _points(values: Sequence[float], sign: str = "") -> str:
    """Return the mean in percent and its standard error, if there are several values."""
    error = standard_error(values)
    return f"{100 * fmean(values):{sign}.1f}" + (f" ± {100 * error:.1f}" if error is not None else "")


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


if __name__ == "__main__":
    main()
