"""Undamaged data that several attacks start from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

CLASSES = ("dog", "cat", "ship", "truck")
VECTORS = np.array([[1, 0.3, 0, 0], [1, -0.3, 0, 0], [0, 0, 1, 0.3], [0, 0, 1, -0.3]], dtype=np.float32)


def small_images(per_class: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return noise that is brighter in one quarter per class, (N, 8, 8) uint8, and class ids (N,)."""
    rng = np.random.default_rng(seed)
    class_ids = np.repeat(np.arange(len(CLASSES)), per_class)
    images = rng.integers(0, 100, size=(len(class_ids), 8, 8))
    for image, k in zip(images, class_ids, strict=True):
        image[4 * (k // 2) :, 4 * (k % 2) :][:4, :4] += 120
    return images.astype(np.uint8), class_ids


def small_arrays() -> dict[str, np.ndarray]:
    """Return the arrays of an .npz data set of 160 training and 80 test images."""
    x_train, y_train = small_images(40, seed=0)
    x_test, y_test = small_images(20, seed=1)
    return {
        "x_train": x_train,
        "y_train": y_train,
        "x_test": x_test,
        "y_test": y_test,
        "class_names": np.array(CLASSES),
    }


def write_data(folder: Path) -> None:
    """Write ``data.npz`` and ``vectors.npy``."""
    np.savez(folder / "data.npz", **small_arrays())
    np.save(folder / "vectors.npy", VECTORS)


def small_values(folder: Path, steps: int) -> dict[str, Any]:
    """Return the configuration values of a run of about a second on the data in ``folder``."""
    return {
        "data": {"source": str(folder / "data.npz"), "labels_per_class": 4},
        "labels": {"source": "matrix", "path": str(folder / "vectors.npy"), "eps": 0.3},
        "model": {"backbone": "wrn-10-1"},
        "augment": {"flip": False, "pad": 0.0, "operations": 1, "cutout": 0.25},
        "training": {
            "steps": steps,
            "batch_size": 8,
            "mu": 2,
            "checkpoint_every": 4,
            "device": "cpu",
            "precision": "float32",  # not what is faster at the moment
        },
    }
