"""Small CIFAR files with the layout of the official ones."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np

from semco.data.sources.cifar import Layout

RNG = np.random.default_rng(0)


def write_official(root: Path, layout: Layout, classes: int, images: int = 4) -> Path:
    """Write small files with the keys and types of the official ones, and return their folder."""
    folder = root / layout.folder
    folder.mkdir(parents=True)
    for file in (*layout.train, layout.test):
        content = {
            b"batch_label": b"a batch",
            layout.labels.encode(): [i % classes for i in range(images)],
            b"data": RNG.integers(0, 256, (images, 3072), dtype=np.uint8),
            b"filenames": [b"x.png"] * images,
        }
        (folder / file).write_bytes(pickle.dumps(content))
    names = {layout.label_names.encode(): [f"class_{k}".encode() for k in range(classes)]}
    (folder / layout.meta).write_bytes(pickle.dumps(names))
    return folder
