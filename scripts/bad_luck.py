"""Write an .npz file of a data set with one thing gone wrong, to see what it costs:

    python scripts/bad_luck.py wrong-labels photos/ wrong.npz --image-size 224
    semco compare wrong.npz --methods linear_probe,semantic_probe --labels-per-class 5 --set data.validation=none ...

The test images stay as they are.

Shapes: N training images, K classes.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from semco.config import DataConfig
from semco.data.datasets import Dataset
from semco.data.sources import load

KINDS = ("none", "wrong-labels", "one-label", "foreign", "duplicates", "tail", "thirds")
Ints = NDArray[np.int64]
LABELS = 5  # per class, which the tail leaves, and of the other classes of one-label
WRONG, RATIO = 0.1, 10


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("source")
    parser.add_argument("out", type=Path)
    parser.add_argument("--data-root")
    parser.add_argument("--classes", type=lambda text: text.split(","))
    parser.add_argument("--image-size", type=int)
    parser.add_argument("--most", type=int, help="training images per class, and test images per class at most")
    parser.add_argument("--foreign", nargs="*", default=[], help=".npz files whose training images are of no class")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args(arguments)
    config = DataConfig(source=args.source, root=args.data_root, classes=args.classes, image_size=args.image_size)
    arrays = arrays_of(load(config), args.most)
    foreign = np.concatenate([read_images(Path(file)) for file in args.foreign]) if args.foreign else None
    np.savez(args.out, **spoil(args.kind, arrays, np.random.default_rng(args.seed), foreign))


def arrays_of(dataset: Dataset, most: int | None = None) -> dict[str, NDArray[np.generic]]:
    """Return a data set as the arrays of an .npz file, with at most so many images of each class."""
    assert dataset.test_images is not None
    assert dataset.test_labels is not None
    parts = {"train": (dataset.train_images, dataset.train_labels), "test": (dataset.test_images, dataset.test_labels)}
    arrays: dict[str, NDArray[np.generic]] = {"class_names": np.array(dataset.class_names)}
    for name, (images, labels) in parts.items():
        kept = torch.from_numpy(first_of_each(labels.numpy(), most or len(labels)))
        arrays[f"x_{name}"] = images[kept].permute(0, 2, 3, 1).numpy()
        arrays[f"y_{name}"] = labels[kept].numpy()
    return arrays


def first_of_each(class_ids: Ints, most: int) -> Ints:
    """Return the positions of the first ``most`` images of each class, in order."""
    return np.sort(np.concatenate([np.flatnonzero(class_ids == k)[:most] for k in np.unique(class_ids)]))


def read_images(file: Path) -> NDArray[np.uint8]:
    with np.load(file) as arrays:
        images: NDArray[np.uint8] = arrays["x_train"]
    return images


def spoil(
    kind: str, arrays: dict[str, NDArray[np.generic]], random: np.random.Generator, foreign: NDArray[np.uint8] | None
) -> dict[str, NDArray[np.generic]]:
    """Return the arrays with the bad luck of this kind."""
    images, class_ids = arrays["x_train"], np.asarray(arrays["y_train"], dtype=np.int64)
    classes, kept = len(arrays["class_names"]), np.arange(len(class_ids))
    if kind == "wrong-labels":
        chosen = random.permutation(len(class_ids))[: round(WRONG * len(class_ids))]
        class_ids = class_ids.copy()
        class_ids[chosen] = (class_ids[chosen] + random.integers(1, classes, len(chosen))) % classes
    elif kind == "one-label":  # these are all labels, so --labels-per-class must not be given
        counts = np.where(np.arange(classes) == random.integers(classes), 1, LABELS)
        labelled = some_of_each(class_ids, counts, random)
        class_ids = np.where(np.isin(kept, labelled), class_ids, -1)
    elif kind == "foreign":  # a third of the pool
        assert foreign is not None
        chosen = random.permutation(len(foreign))[: len(images) // 2]
        images, class_ids = np.concatenate([images, foreign[chosen]]), np.append(class_ids, np.full(len(chosen), -1))
    elif kind == "duplicates":  # five more copies of a tenth of the images
        chosen = np.repeat(random.permutation(len(images))[: len(images) // 10], 5)
        images, class_ids = np.concatenate([images, images[chosen]]), np.append(class_ids, np.full(len(chosen), -1))
    elif kind == "tail":  # beside `LABELS` per class, the pool falls geometrically to 1 / `RATIO`
        rest = np.bincount(class_ids) - LABELS
        place = random.permutation(classes) / max(1, classes - 1)
        kept = np.sort(some_of_each(class_ids, LABELS + np.round(rest * RATIO**-place).astype(int), random))
        images, class_ids = images[kept], class_ids[kept]
    elif kind == "thirds":
        return in_thirds(arrays)
    return arrays | {"x_train": images, "y_train": class_ids}


def some_of_each(class_ids: Ints, counts: Ints, random: np.random.Generator) -> Ints:
    """Return the positions of ``counts`` (K,) random images of each class."""
    members = [random.permutation(np.flatnonzero(class_ids == k))[:count] for k, count in enumerate(counts)]
    return np.concatenate(members)


def in_thirds(arrays: dict[str, NDArray[np.generic]]) -> dict[str, NDArray[np.generic]]:
    """Return three classes for each class, a third of its images each: the dark, the medium and the bright ones."""
    found = dict(arrays)
    for name in ("train", "test"):
        brightness = arrays[f"x_{name}"].mean(axis=(1, 2, 3))  # type: ignore[call-overload]
        class_ids = np.asarray(arrays[f"y_{name}"], dtype=np.int64)
        third = np.empty(len(class_ids), dtype=np.int64)
        for k in np.unique(class_ids):
            own = np.flatnonzero(class_ids == k)
            third[own[np.argsort(brightness[own], kind="stable")]] = np.arange(len(own)) * 3 // len(own)
        found[f"y_{name}"] = 3 * class_ids + third
    names = [f"{word} {name}" for name in arrays["class_names"].tolist() for word in ("dark", "medium", "bright")]
    return found | {"class_names": np.array(names)}


if __name__ == "__main__":
    main()
