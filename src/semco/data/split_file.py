"""The list of images whose labels are used (data.labelled_from): paths, or positions in the training set."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from semco.config import DataConfig
from semco.data.datasets import Dataset
from semco.data.sources.lists import lines_of
from semco.errors import UserError, brief
from semco.files import expand_home


def read_labelled(config: DataConfig, dataset: Dataset) -> NDArray[np.int64] | None:
    """Return the positions of the images that the configured list names, in ascending order; None without a list."""
    if config.labelled_from is None:
        return None
    file = expand_home(config.labelled_from)
    known = _positions(config, dataset)
    found: set[int] = set()
    for number, line in lines_of(file):
        position = int(line) if line.isdecimal() and len(line) < 19 else known.get(os.path.normpath(line))
        if position is None or position >= len(dataset.train_labels):
            raise UserError(f"{file}, line {number}: there is no training image {brief(line)}; correct the line.")
        if dataset.train_labels[position] < 0:
            raise UserError(f"{file}, line {number}: {brief(line)} has no label; remove the line, or label the image.")
        found.add(position)
    return np.array(sorted(found), dtype=np.int64)


def _positions(config: DataConfig, dataset: Dataset) -> dict[str, int]:
    """Return the position of each training image by its path, and by its path relative to the source."""
    positions: dict[str, int] = {}
    root = str(expand_home(Path(config.root or config.source)))
    for position, path in enumerate(dataset.train_paths or ()):
        positions[path] = position
        positions[path.removeprefix(root).lstrip("/")] = position
    return positions
