"""Are labels that `semco suggest` chooses worth more than random ones? Prints the test accuracy of both, per seed.

For each seed: a first run; then the same number of further labels, suggested or random, and a run that continues.
"""

from __future__ import annotations

import argparse
import csv
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from semco.config import configure
from semco.data.sources import load
from semco.data.split import Split
from semco.experiment import train
from semco.experiment.continuation import continue_run
from semco.experiment.suggest import suggest
from semco.run.folder import RunFolder


def measure(options: argparse.Namespace, seed: int, folder: Path) -> tuple[float, float, list[float]]:
    """Return the test accuracy of the first run, after suggested labels, and after each draw of random ones."""
    data = {"source": options.data, "root": options.data_root, "labels_per_class": options.labels_per_class}
    if options.classes:
        data["classes"] = options.classes.split(",")
    values: dict[str, Any] = {"data": data, "training": {"steps": options.steps, "seed": seed}}
    if not options.recipe:
        values["model"] = {"backbone": "wrn-10-1"}
        values["training"] |= {"batch_size": 16, "mu": 3}
    config = configure(options.recipe, None, values, options.set)
    first = train(config, folder / "first")
    dataset = load(config.data)
    split = Split.from_json(RunFolder(folder / "first").split_file.read_text(), dataset.train_labels)
    pool = np.setdiff1d(split.unlabelled, split.labelled)
    rng = np.random.default_rng(seed)
    chosen = [[each.position for each in suggest(folder / "first", options.n)]]
    chosen += [rng.choice(pool, options.n, replace=False).tolist() for _ in range(options.draws)]
    scores = []
    for number, positions in enumerate(chosen):
        with (folder / f"{number}.csv").open("w", newline="") as stream:
            rows = csv.writer(stream)
            rows.writerow(["index", "path", "label"])
            paths = dataset.train_paths or [""] * len(dataset.train_labels)
            names = [dataset.class_names[int(dataset.train_labels[p])] for p in positions]
            rows.writerows([p, paths[p], name] for p, name in zip(positions, names, strict=True))
        result = continue_run(folder / "first", folder / f"{number}.csv", folder / f"{number}")
        scores.append(float(result.test_accuracy or 0))
        shutil.rmtree(folder / f"{number}")
    return float(first.test_accuracy or 0), scores[0], scores[1:]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default="fashion-mini")
    parser.add_argument("--data-root", type=Path)
    parser.add_argument("--classes")
    parser.add_argument("--labels-per-class", type=int, default=2)
    parser.add_argument("--n", type=int, default=20)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--draws", type=int, default=1, help="of random labels, for each seed")
    parser.add_argument("--recipe", help="such as photos; otherwise a small network is trained from scratch")
    parser.add_argument("--set", action="append", default=[], help="any field of the configuration")
    options = parser.parse_args()
    print("seed  first  suggested  random")
    for seed in map(int, options.seeds.split(",")):
        with tempfile.TemporaryDirectory() as folder:
            first, suggested, drawn = measure(options, seed, Path(folder))
        print(f"{seed:4}  {first:.1%}  {suggested:.1%}  {', '.join(f'{each:.1%}' for each in drawn)}", flush=True)


if __name__ == "__main__":
    main()
