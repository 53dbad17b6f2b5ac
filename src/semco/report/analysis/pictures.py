"""The pictures of a few images of a run's training set."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import torch
from torch import Tensor

from semco.data.decode import DECODE_ERRORS, decode
from semco.data.sources import load
from semco.errors import UserError
from semco.run.folder import RunFolder

PHOTO_SIDE = 224  # pixels of a photo that is read from its file


def training_pictures(run: Path, index: Sequence[int]) -> dict[int, Tensor]:
    """Return unlabelled images of a run by their position in the training set, each (C, H, W) uint8.

    Photos are read from their files, one by one; only data sets of arrays are loaded whole. Images that are no longer
    there are left out.
    """
    if not index:
        return {}
    files = _files(run, index)
    if files:
        pictures = {position: _decode(file) for position, file in files.items()}
        return {position: picture for position, picture in pictures.items() if picture is not None}
    try:
        images = load(RunFolder(run).config().data).train_images
    except UserError:  # the data are not here
        return {}
    return {position: images[position] for position in index if position < len(images)}


def _files(run: Path, index: Sequence[int]) -> dict[int, Path]:
    """Return the files of images from the table of pseudo-labels; none for data sets of arrays."""
    try:
        rows = pq.read_table(RunFolder(run).pseudo_labels_file, filters=[("index", "in", list(index))]).to_pylist()
    except (pa.ArrowInvalid, OSError):
        return {}
    return {row["index"]: _path(row) for row in rows if row["path"] is not None}


def _path(row: dict[str, str | bytes]) -> Path:
    """Return the path of an image; names that are not UTF-8 are also there as bytes."""
    return Path(os.fsdecode(row.get("path_bytes") or row["path"]))


def _decode(file: Path) -> Tensor | None:
    try:
        return torch.from_numpy(decode(file, PHOTO_SIDE).copy()).permute(2, 0, 1)
    except DECODE_ERRORS:
        return None
