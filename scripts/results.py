"""Print a table of docs/results.md: test accuracies of methods on several problems, from the folders of comparisons.

    python scripts/results.py A14=runs/a,runs/a-more B=runs/b --against semco_plus

Each problem is NAME=FOLDER[,FOLDER...] of `semco compare`. A cell has the mean over the seeds in percent, its standard
error, and the number of seeds if not all methods of the problem have the same; below it stands the mean difference to
the method of ``--against``, paired by seed. ``--each`` prints the accuracy of every seed instead.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean

from semco.report.tables import standard_error

Seeds = Mapping[int, float]  # test accuracies in percent


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("problems", nargs="+", help="NAME=FOLDER[,FOLDER...]")
    parser.add_argument("--against", help="the method to which differences are shown")
    parser.add_argument("--each", action="store_true", help="print the accuracy of every seed")
    args = parser.parse_args(arguments)
    problems = {}
    for problem in args.problems:
        name, _, folders = problem.partition("=")
        problems[name] = read_accuracies([Path(folder) for folder in folders.split(",")])
    print("\n".join(each_seed(problems) if args.each else table(problems, args.against)))


def read_accuracies(folders: Sequence[Path]) -> dict[str, dict[int, float]]:
    """Return the test accuracies of the finished runs in these folders, by method and seed."""
    found: dict[str, dict[int, float]] = {}
    for folder in folders:
        for file in sorted(folder.glob("*-seed*/result.json")):
            method, _, seed = file.parent.name.rpartition("-seed")
            accuracy = json.loads(file.read_text())["test_accuracy"]
            if accuracy is not None:
                found.setdefault(method, {})[int(seed)] = 100 * accuracy
    if not found:
        raise SystemExit(f"no finished run with test images in {', '.join(map(str, folders))}.")
    return found


def table(problems: Mapping[str, Mapping[str, Seeds]], against: str | None) -> list[str]:
    """Return the lines of the table, the methods with the highest mean over the problems first."""
    methods = {method for accuracies in problems.values() for method in accuracies}

    def mean(method: str) -> float:
        return fmean(fmean(a[method].values()) for a in problems.values() if method in a)

    titles = ["method"]
    for name in problems:
        titles += [name, f"against {against}"] if against else [name]
    lines = [_row(titles), "|" + "---|" * len(titles)]
    for method in sorted(methods, key=mean, reverse=True):
        cells = [method]
        for accuracies in problems.values():
            seeds, most = accuracies.get(method, {}), max(map(len, accuracies.values()))
            cells.append(
                points(list(seeds.values())) + (f" ({len(seeds)} of {most} seeds)" if 0 < len(seeds) < most else "")
            )
            if against:
                base = accuracies.get(against, {})
                cells.append(points([seeds[s] - base[s] for s in seeds if s in base], "+") if method != against else "")
        lines.append(_row(cells))
    return lines


def each_seed(problems: Mapping[str, Mapping[str, Seeds]]) -> list[str]:
    """Return one line per problem and method with the accuracy of every seed."""
    return [
        _row([name, method, ", ".join(f"{seed}: {value:.1f}" for seed, value in sorted(seeds.items()))])
        for name, accuracies in problems.items()
        for method, seeds in accuracies.items()
    ]


def points(values: Sequence[float], sign: str = "") -> str:
    """Return the mean and its standard error, if there are several values; a dash without any."""
    if not values:
        return "–"
    error = standard_error(values)
    return f"{fmean(values):{sign}.1f}" + (f" ± {error:.1f}" if error is not None else "")


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


if __name__ == "__main__":
    main()
