"""Are suggested labels worth more than random ones to a linear probe? Prints the test accuracy, over many draws.

The features are those of a pretrained network, which is not trained further, so that this takes minutes for all draws.
Each draw: some labels of every class, then as many again, random (three times) or chosen in one of the two ways of
`semco suggest`: spread over the pool, or uncertain.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

from semco.config import configure
from semco.data.sources import load
from semco.evaluation.results import image_batches
from semco.experiment.selection import choose, cover, unit_rows, worth_of
from semco.models import build_network

Floats = NDArray[np.float32]


def features_of(source: str, size: int) -> tuple[Floats, NDArray[Any], Floats, NDArray[Any]]:
    """Return features with unit length and classes of the training images, and of the test images."""
    config = configure("photos", None, {"data": {"source": source, "image_size": size, "labels_per_class": 1}})
    data = load(config.data)
    assert data.test_images is not None
    assert data.test_labels is not None
    network = build_network(config.model, ("one_hot",), data.num_classes, 8, data.channels, size).eval()
    half = (0.5,) * 3  # what the network was trained with
    with torch.inference_mode():
        train, test = (
            unit_rows(
                np.concatenate([network(batch).features.numpy() for batch in image_batches(images, half, half, 32)])
            )
            for images in (data.train_images, data.test_images)
        )
    return train, data.train_labels.numpy(), test, data.test_labels.numpy()


def measure(source: str, size: int, per_class: int, draws: int) -> None:
    images, classes, test, truth = features_of(source, size)
    number = per_class * len(np.unique(classes))

    def fit(rows: Sequence[int] | NDArray[Any]) -> LogisticRegression:
        return LogisticRegression(C=100, max_iter=300).fit(images[rows], classes[rows])

    gains: dict[str, list[float]] = {"random": [], "spread": [], "uncertain": []}
    accuracy: dict[str, list[float]] = {"first": [], **{name: [] for name in gains}}
    for draw in range(draws):
        rng = np.random.default_rng(draw)
        first = np.concatenate([rng.choice(np.flatnonzero(classes == k), per_class, False) for k in np.unique(classes)])
        pool = np.setdiff1d(np.arange(len(classes)), first)
        worth = worth_of({"probe": fit(first).predict_proba(images[pool])})
        chosen = {
            "random": [rng.choice(len(pool), number, False) for _ in range(3)],
            "spread": [[position for position, _ in cover(images[pool], images[first], number)]],
            "uncertain": [choose(worth, images[pool], images[first], number)],
        }
        accuracy["first"].append(fit(first).score(test, truth))
        for name, lists in chosen.items():
            scores = [fit(np.concatenate([first, pool[each]])).score(test, truth) for each in lists]
            accuracy[name].append(float(np.mean(scores)))
            gains[name].append(accuracy[name][-1] - accuracy["random"][-1])
    for name, values in accuracy.items():
        difference = np.asarray(gains.get(name, values)) * 100
        error = difference.std(ddof=1) / np.sqrt(draws)
        compared = f"  {difference.mean():+.1f} ± {error:.1f}" if name in ("spread", "uncertain") else ""
        print(f"{name:10} {np.mean(values):.1%}{compared}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="fruit-mini")
    parser.add_argument("--size", type=int, default=160)
    parser.add_argument("--labels-per-class", type=int, default=2)
    parser.add_argument("--draws", type=int, default=12)
    options = parser.parse_args()
    measure(options.data, options.size, options.labels_per_class, options.draws)


if __name__ == "__main__":
    main()
