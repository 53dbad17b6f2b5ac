"""The most confused images of look-alike classes (supplement of the paper), read from ``images.parquet``."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import torch
from torch import Tensor

from semco.data.decode import DECODE_ERRORS, decode
from semco.data.sources import load
from semco.errors import UserError
from semco.files import exists
from semco.run.folder import RunFolder
from semco.training.pool_statistics import TOP_WRONG

PER_CLASS = 4


@dataclass(frozen=True)
class ConfusedImage:
    """An image of the pool and how often it was given each wrong class of the look-alikes."""

    index: int  # position in the training set
    truth: int
    seen: int
    wrong: dict[int, int]  # class -> how often

    @property
    def confusion(self) -> float:
        """How often the image was given a wrong class of the look-alikes, per time that it was seen."""
        return sum(self.wrong.values()) / max(1, self.seen)


def most_confused(run: Path, class_ids: Sequence[int], per_class: int = PER_CLASS) -> list[ConfusedImage]:
    """Return the images of each class that were most often taken for another of these classes."""
    file = RunFolder(run).images_file
    if not exists(file):
        return []
    try:
        rows = pq.read_table(file, filters=[("truth", "in", list(class_ids))]).to_pylist()
    except (pa.ArrowInvalid, OSError) as error:
        raise UserError(f"{file} cannot be read ({str(error).splitlines()[0]}); train the run again.") from None
    images = [_image(row, class_ids) for row in rows]
    chosen = []
    for class_id in class_ids:
        own = [image for image in images if image.truth == class_id and image.wrong]
        chosen += sorted(own, key=lambda image: (-image.confusion, image.index))[:per_class]
    return chosen


def _image(row: dict[str, int], class_ids: Sequence[int]) -> ConfusedImage:
    given = {row[f"wrong_{k}"]: row[f"wrong_{k}_count"] for k in range(1, TOP_WRONG + 1)}
    wrong = {label: count for label, count in given.items() if count and label in class_ids}
    return ConfusedImage(row["index"], row["truth"], row["seen"], wrong)


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
