"""Run the attacks: ``python tests/torture/run.py``, or ``make torture`` with SEED, N, ONLY, MINUTES and CASE.

The exit code is 1 if a case failed.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
import warnings
from pathlib import Path

# Forked processes inherit no threads, and memory is limited by address space, of which these allocators reserve much.
os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
os.environ["ARROW_DEFAULT_MEMORY_POOL"] = "system"
sys.path.insert(0, str(Path(__file__).parents[1]))

from torture import (
    archives,
    configurations,
    downloads,
    images,
    kills,
    rivals,
    run_folders,
    service,
    serving,
    sources,
    strangers,
    studio,
    vectors,
)
from torture.attack import Failure
from torture.runner import run_attack
from torture.summary import print_json, print_tables

MODULES = (
    images, archives, sources, configurations, vectors, downloads, service, serving, strangers, run_folders,
    rivals, kills, studio,
)  # fmt: skip
ATTACKS = {module.ATTACK.name: module.ATTACK for module in MODULES}
ALL_MINUTES = sum(attack.minutes for attack in ATTACKS.values())


def main(arguments: list[str] | None = None) -> int:
    options = parse(arguments)
    warnings.simplefilter("ignore")  # of Pillow, about damaged images
    top = Path(tempfile.mkdtemp(prefix="semco-torture-"))
    tallies, deadline = [], time.monotonic()
    minutes = sum(ATTACKS[name].minutes for name in options.only)
    for name in options.only:
        root = top / "work" / name
        attack = ATTACKS[name]
        numbers = range(max(1, round(attack.cases * options.n))) if options.case is None else [options.case]
        deadline += 60 * attack.minutes * options.minutes / minutes  # time that one attack leaves goes to the next
        tallies.append(run_attack(attack, root, options.seed, numbers, deadline, options.jobs))
        if os.listdir(top) != ["work"]:  # noqa: PTH208
            raise Failure(f"{name} wrote outside its folder", str(sorted(top.iterdir())))
    if options.case is None:
        shutil.rmtree(top)
    print_json(tallies, options.seed) if options.json else print_tables(tallies, with_details=options.case is not None)
    if options.case is not None and not options.json:
        sys.stdout.write(f"\nthe files of the case: {top / 'work' / options.only[0] / 'worker-0' / 'case'}\n")
    return int(any(tally.failed for tally in tallies))


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Attack the package with damaged input, kills and bad servers.")
    parser.add_argument("--seed", type=int, default=0, help="decides every case")
    parser.add_argument("--n", type=float, default=1.0, help="number of cases, as a multiple of the default numbers")
    parser.add_argument("--only", default="", help=f"attacks, separated by commas: {', '.join(ATTACKS)}")
    parser.add_argument("--minutes", type=float, default=ALL_MINUTES, help="time for all attacks together")
    parser.add_argument("--case", type=int, help="run this case of one attack, show everything, keep its files")
    parser.add_argument("--jobs", type=int, default=2, help="number of cases at a time")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args(arguments)
    options.only = options.only.split(",") if options.only else list(ATTACKS)
    if unknown := set(options.only) - set(ATTACKS):
        parser.error(f"unknown attacks {', '.join(sorted(unknown))}; known: {', '.join(ATTACKS)}")
    if options.case is not None and len(options.only) != 1:
        parser.error("a case belongs to one attack; name it with --only")
    return options


if __name__ == "__main__":
    sys.exit(main())
