"""Are labels that `semco suggest` chooses worth more than random ones? Prints the test accuracy of both, per seed.

For each seed: a first run; then the same number of further labels, suggested or random, and a run that continues.
"""

from __future__ import annotations

import argparse
import csv
import tempfile
from pathlib import Path

import numpy as np

from semco.config import configure
from semco.data.sources import load
from semco.data.split import Split
from semco.experiment import train
from semco.experiment.continuation import continue_run
from semco.experiment.suggest import suggest
from semco.run.folder import RunFolder


def measure(options: argparse.Namespace, seed: int, folder: Path) -> tuple[float | None, float | None, float | None]:
    """Return the test accuracy of the first run, and after suggested and random labels."""
    data = {"source": options.data, "root": options.data_root, "labels_per_class": options.labels_per_class}
    if options.classes:
        data["classes"] = options.classes.split(",")
    training = {"steps": options.steps, "batch_size": 16, "mu": 3, "seed": seed}
    config = configure(options={"data": data, "model": {"backbone": "wrn-10-1"}, "training": training})
    first = train(config, folder / "first")
    dataset = load(config.data)
    split = Split.from_json(RunFolder(folder / "first").split_file.read_text(), dataset.train_labels)
    pool = np.setdiff1d(split.unlabelled, split.labelled)
    chosen = [each.position for each in suggest(folder / "first", options.n)]
    drawn = np.random.default_rng(seed).choice(pool, options.n, replace=False).tolist()
    scores = []
    for name, positions in (("suggested", chosen), ("random", drawn)):
        with (folder / f"{name}.csv").open("w", newline="") as stream:
            rows = csv.writer(stream)
            rows.writerow(["index", "label"])
            rows.writerows([p, dataset.class_names[int(dataset.train_labels[p])]] for p in positions)
        scores.append(continue_run(folder / "first", folder / f"{name}.csv", folder / name).test_accuracy)
    return first.test_accuracy, scores[0], scores[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default="fashion-mini")
    parser.add_argument("--data-root", type=Path)
    parser.add_argument("--classes")
    parser.add_argument("--labels-per-class", type=int, default=2)
    parser.add_argument("--n", type=int, default=20)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--seeds", default="0,1,2")
    options = parser.parse_args()
    print("seed  first  suggested  random")
    for seed in map(int, options.seeds.split(",")):
        with tempfile.TemporaryDirectory() as folder:
            found = measure(options, seed, Path(folder))
        print(f"{seed:4}  " + "  ".join("-" if value is None else f"{value:.1%}" for value in found), flush=True)


if __name__ == "__main__":
    main()
