"""Predict image files with a saved model.

Shapes: N images, C channels, H and W pixels.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import astuple, dataclass, fields
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from semco.data.datasets import ProgressCallback
from semco.data.decode import DECODE_ERRORS, IMAGE_SUFFIXES, decode, reason_of
from semco.data.folder import find_images
from semco.distributed.processes import Processes
from semco.errors import UserError
from semco.evaluation.model_file import ModelDescription, SavedModel, load_model
from semco.evaluation.probabilities import Head, predict_probabilities
from semco.evaluation.results import image_batches
from semco.evaluation.zero_shot import with_classes
from semco.files import atomic_path, exists
from semco.run.folder import RunFolder
from semco.training.execution import choose_device

BATCH = 256


@dataclass(frozen=True)
class Prediction:
    """The most probable class of one image and the second most probable one; the fields are the columns of the CSV."""

    path: str
    label: str
    confidence: float
    runner_up: str
    runner_up_confidence: float


@dataclass(frozen=True)
class Predictions:
    rows: tuple[Prediction, ...]
    skipped: tuple[str, ...]  # files that could not be read, each with the reason


def predict_images(
    folder: Path,
    paths: Sequence[Path],
    head: Head | None = None,
    report: ProgressCallback | None = None,
    device: str = "auto",
    classes: Sequence[str] | None = None,
) -> Predictions:
    """Return predictions for image files and folders of images; ``folder`` is a run folder or its ``model/`` folder.

    With ``classes``, the semantic head chooses among these class names, which need not be those of the training.
    Images are made square as in training on a folder: upright, the centre, the shorter side resized.
    """
    files = find_image_files(paths)
    chosen_device = choose_device(device, Processes.from_environment())
    model_folder = find_model_folder(folder)
    model = load_model(model_folder, chosen_device)
    if classes is not None:
        if head not in (None, "semantic"):
            raise UserError(f"only the semantic head can predict other classes, not head {head!r}.")
        model = with_classes(model, model_folder.parent, classes)
    rows: list[Prediction] = []
    skipped: list[str] = []
    for start in range(0, len(files), BATCH):
        batch = files[start : start + BATCH]
        images = list(_decode_all(batch, model.description))
        skipped += [f"{file} ({error})" for file, error in zip(batch, images, strict=True) if isinstance(error, str)]
        readable = {file: image for file, image in zip(batch, images, strict=True) if not isinstance(image, str)}
        rows += _predict_batch(model, readable, head, chosen_device)
        if report is not None:
            report("predicting", start + len(batch), len(files))
    if not rows:
        raise UserError(f"none of the {len(files)} images can be read; the first one is {skipped[0]}.")
    return Predictions(tuple(rows), tuple(skipped))


def find_model_folder(folder: Path) -> Path:
    """Return the model folder of a run; a model folder is returned itself."""
    if not exists(folder) or not folder.is_dir():
        raise UserError(f"there is no run folder {folder}.")
    if (folder / "model.json").is_file():
        return folder
    model = folder / "model"
    return model if model.is_dir() else RunFolder.open(folder).model


def find_image_files(paths: Sequence[Path]) -> list[Path]:
    """Return the given files, and the image files below the given folders in order; each file once."""
    found: list[Path] = []
    for path in paths:
        if exists(path) and path.is_dir():
            images, _ = find_images(path)
            if not images:
                raise UserError(f"{path} holds no image files ({', '.join(sorted(IMAGE_SUFFIXES))}).")
            found += images
        elif exists(path):
            found.append(path)
        else:
            raise UserError(f"there is no image or folder {path}.")
    if not found:
        raise UserError("no images to predict; give image files or folders of images.")
    return list(dict.fromkeys(found))


def _decode_all(files: Sequence[Path], description: ModelDescription) -> Iterator[Tensor | str]:
    """Yield each file as an image for the model, or the reason why it cannot be read."""
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as threads:
        yield from threads.map(lambda file: _decode(file, description), files)


def _decode(file: Path, description: ModelDescription) -> Tensor | str:
    """Return an image (C, H, W) uint8, or an error; if the model's images are not square, the square is cropped."""
    height, width = description.image_size
    size = max(height, width)
    try:
        square = decode(file, size)  # (S, S, 3)
    except DECODE_ERRORS as error:
        return reason_of(error, file)
    top, left = (size - height) // 2, (size - width) // 2
    pixels = _convert_channels(square[top : top + height, left : left + width], description.channels)
    return torch.from_numpy(pixels.transpose(2, 0, 1).copy())


def _convert_channels(pixels: NDArray[np.uint8], channels: int) -> NDArray[np.uint8]:
    """Return pixels (H, W, 3) as (H, W, C); one channel is the brightness."""
    return pixels if channels == 3 else np.asarray(Image.fromarray(pixels).convert("L"))[..., None]


def _predict_batch(
    model: SavedModel, images: Mapping[Path, Tensor], head: Head | None, device: torch.device
) -> list[Prediction]:
    if not images:
        return []
    description = model.description
    batches = image_batches(torch.stack(list(images.values())), description.mean, description.std, BATCH, device)
    scores = predict_probabilities(model.network, batches, model.scorer(head))
    order = np.argsort(-scores, axis=1, kind="stable")[:, :2]
    names = description.class_names
    return [
        Prediction(str(file), names[a], float(row[a]), names[b], float(row[b]))
        for file, row, (a, b) in zip(images, scores, order.tolist(), strict=True)
    ]


def write_predictions(file: Path, predictions: Predictions) -> None:
    """Write a CSV file with one row per image; the columns are the fields of `Prediction`."""
    with (
        atomic_path(file) as temporary,
        # A file name may be invalid UTF-8; its bytes are written unchanged.
        temporary.open("w", encoding="utf-8", errors="surrogateescape", newline="") as stream,
    ):
        writer = csv.writer(stream)
        writer.writerow([field.name for field in fields(Prediction)])
        writer.writerows(astuple(row) for row in predictions.rows)
