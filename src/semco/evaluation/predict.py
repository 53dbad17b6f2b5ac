"""Answers for image files, from a saved model alone.

Shapes: N images, C channels, H and W pixels.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import astuple, dataclass, fields
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from semco.data.datasets import ProgressCallback
from semco.data.decode import IMAGE_SUFFIXES, DECODE_ERRORS, decode
from semco.data.folder import find_images
from semco.distributed.processes import Processes
from semco.errors import UserError
from semco.evaluation.model_file import ModelDescription, SavedModel, load_model
from semco.evaluation.probabilities import Head, predict_probabilities
from semco.evaluation.results import image_batches
from semco.evaluation.zero_shot import with_classes
from semco.files import atomic_path
from semco.run.folder import RunFolder
from semco.training.execution import choose_device

BATCH = 256


@dataclass(frozen=True)
class Row:
    """The answer for one image and the second choice."""

    path: str
    label: str
    confidence: float
    runner_up: str
    runner_up_confidence: float


@dataclass(frozen=True)
class Predictions:
    rows: tuple[Row, ...]
    skipped: tuple[str, ...]  # files that could not be read, with the reason


def predict_images(
    folder: Path,
    paths: Sequence[Path],
    head: Head | None = None,
    report: ProgressCallback | None = None,
    device: str = "auto",
    classes: Sequence[str] | None = None,
) -> Predictions:
    """Predict files and whole folders of images; ``folder`` is a run or its ``model/`` folder.

    With ``classes`` the semantic head chooses among these names, seen in training or not.
    Images are made square as a data set of folders is read: upright, the centre, the shorter side resized.
    """
    files = expand(paths)
    where = choose_device(device, Processes.from_environment())
    model = load_model(find_model(folder), where)
    if classes is not None:
        if head not in (None, "semantic"):
            raise UserError(f"only the semantic head can choose among other classes, not head {head!r}.")
        model = with_classes(model, find_model(folder).parent, classes)
    rows: list[Row] = []
    skipped: list[str] = []
    for start in range(0, len(files), BATCH):
        block = files[start : start + BATCH]
        read = list(_decoded(block, model.description))
        skipped += [f"{file} ({image})" for file, image in zip(block, read, strict=True) if isinstance(image, str)]
        good = [(file, image) for file, image in zip(block, read, strict=True) if not isinstance(image, str)]
        rows += _rows(model, [f for f, _ in good], [i for _, i in good], head, where)
        if report is not None:
            report("predicting", start + len(block), len(files))
    if not rows:
        raise UserError(f"none of the {len(files)} images can be read; the first is {skipped[0]}.")
    return Predictions(tuple(rows), tuple(skipped))


def find_model(folder: Path) -> Path:
    """The model folder of a run, or the folder itself where it is one."""
    if not folder.is_dir():
        raise UserError(f"there is no run folder {folder}.")
    if (folder / "model.json").is_file():
        return folder
    model = folder / "model"
    return model if model.is_dir() else RunFolder.open(folder).model


def expand(paths: Sequence[Path]) -> list[Path]:
    """Files as they are given, folders as the images below them in order; each file once."""
    found: list[Path] = []
    for path in paths:
        if path.is_dir():
            images, _ = find_images(path)
            if not images:
                raise UserError(f"{path} holds no image ({', '.join(sorted(IMAGE_SUFFIXES))}).")
            found += images
        elif path.exists():
            found.append(path)
        else:
            raise UserError(f"there is no image or folder {path}.")
    if not found:
        raise UserError("no image was given; name image files or folders of them.")
    return list(dict.fromkeys(found))


def _decoded(files: Sequence[Path], description: ModelDescription) -> Iterator[Tensor | str]:
    """Each file as the model wants it, or what is wrong with it."""
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as threads:
        yield from threads.map(lambda file: _decode(file, description), files)


def _decode(file: Path, description: ModelDescription) -> Tensor | str:
    """(C, H, W) uint8; of a model for images that are not square, the centre of the square is taken."""
    height, width = description.image_size
    size = max(height, width)
    try:
        square = decode(file, size)  # (S, S, 3)
    except DECODE_ERRORS as error:
        return str(error) or type(error).__name__
    top, left = (size - height) // 2, (size - width) // 2
    pixels = _as_channels(square[top : top + height, left : left + width], description.channels)
    return torch.from_numpy(pixels.transpose(2, 0, 1).copy())


def _as_channels(pixels: NDArray[np.uint8], channels: int) -> NDArray[np.uint8]:
    """(H, W, 3) -> (H, W, C): for one channel, the brightness."""
    return pixels if channels == 3 else np.asarray(Image.fromarray(pixels).convert("L"))[..., None]


def _rows(
    model: SavedModel,
    files: Sequence[Path],
    images: Sequence[Tensor],
    head: Head | None,
    device: torch.device,
) -> list[Row]:
    if not files:
        return []
    description = model.description
    batches = image_batches(torch.stack(list(images)), description.mean, description.std, BATCH, device)
    scores = predict_probabilities(model.network, batches, model.scorer(head))
    order = np.argsort(-scores, axis=1, kind="stable")[:, :2]
    names = description.class_names
    return [
        Row(str(file), names[a], float(row[a]), names[b], float(row[b]))
        for file, row, (a, b) in zip(files, scores, order.tolist(), strict=True)
    ]


def write_predictions(file: Path, predictions: Predictions) -> None:
    """One line an image, under the names of the fields of `Row`."""
    with (
        atomic_path(file) as temporary,
        # A file name need not be valid text; it is written as the bytes it is.
        temporary.open("w", encoding="utf-8", errors="surrogateescape", newline="") as stream,
    ):
        writer = csv.writer(stream)
        writer.writerow([field.name for field in fields(Row)])
        writer.writerows(astuple(row) for row in predictions.rows)
