"""Predict images with a trained model: files, arrays, any number of them.

Decoding and the forward pass overlap: threads decode the next batches while the network runs. Only a few batches are in
memory at any time.

Shapes: N images, C channels, H and W pixels, S side of a decoded image, K classes.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from PIL import Image
from torch import Tensor

from semco.data.decode import DECODE_ERRORS, centre_square, decode, reason_of
from semco.data.listing import Entry
from semco.errors import UserError, brief
from semco.evaluation.engine import EngineName
from semco.evaluation.probabilities import Head
from semco.evaluation.thresholds import choose_threshold
from semco.predict.engine import About, Engine, Scores, torch_engine
from semco.predict.onnx.engine import OnnxEngine
from semco.predict.predictions import Prediction, or_none_of_these, predictions_of

# Batches that are decoded ahead of the one that the network reads.
BATCHES_AHEAD = 2
# Where 'semco export' writes a model, inside the run folder.
EXPORTED = Path("export") / "model.onnx"
Pixels = NDArray[np.uint8]
P = TypeVar("P")  # a photo: a path, an entry, or the position of an array


class Predictor:
    """A trained model that is ready to predict; `load` makes one."""

    def __init__(self, engine: Engine, none_of_these: float | None = None) -> None:
        self.engine = engine
        thresholds = engine.about.thresholds
        self.threshold = None if none_of_these is None else choose_threshold(thresholds, none_of_these)

    @property
    def about(self) -> About:
        """Classes, groups, image size and heads of the model."""
        return self.engine.about

    @property
    def class_names(self) -> tuple[str, ...]:
        """The K classes, in the order of the columns of `predict_proba`."""
        return self.about.class_names

    @property
    def groups(self) -> tuple[str, ...]:
        """The group of each class, itself included: ``shirt + coat``."""
        return self.about.groups

    def predict(self, images: Any, top: int = 2) -> list[Prediction]:
        """Return the prediction of each image, with its ``top`` most probable classes.

        ``images`` are paths of files, or arrays (N, H, W) or (N, H, W, 3) uint8, or a list of arrays of several sizes,
        which are made square as photos are. A file that cannot be read gives a prediction that has only an ``error``.

        Examples:
            >>> (answer,) = semco.load("runs/first").predict(np.zeros((1, 28, 28), np.uint8))
            >>> answer.label in ("bag", "coat"), 0.5 <= answer.confidence <= 1
            (True, True)
        """
        paths = as_paths(images)
        if paths is not None:
            return [each for batch in self.stream(paths, top) for each in batch]
        pixels = (array_to_pixels(array, self.about) for array in as_arrays(images))
        return [each for _, batch in self._answer(enumerate(pixels), top) for each in batch]

    def predict_proba(self, images: Any) -> NDArray[np.float32]:
        """Return the probabilities (N, K) of images as in `predict`; a file that cannot be read is a `UserError`.

        Examples:
            >>> semco.load("runs/first").predict_proba(np.zeros((3, 28, 28), np.uint8)).shape
            (3, 2)
        """
        paths = as_paths(images)
        if paths is None:
            pixels: Iterable[Tensor] = (array_to_pixels(array, self.about) for array in as_arrays(images))
        else:
            pixels = (_readable(path, image) for path, image in self._decoded(paths))
        parts = [scores.chosen for scores in self.engine.stream(map(torch.stack, _batches(pixels, self._batch_size)))]
        return np.concatenate(parts) if parts else np.empty((0, len(self.class_names)), np.float32)

    def stream(self, photos: Iterable[Path | Entry], top: int = 2) -> Iterator[list[Prediction]]:
        """Yield the predictions of photos in their order, a few hundred at a time, however many there are."""
        return (batch for _, batch in self.stream_entries(photos, top))

    def stream_entries(self, photos: Iterable[P], top: int = 2) -> Iterator[tuple[list[P], list[Prediction]]]:
        """Yield the same with the photos themselves."""
        return self._answer(self._decoded(photos), top)

    @property
    def _batch_size(self) -> int:
        return self.about.batch_size

    def _decoded(self, photos: Iterable[P]) -> Iterator[tuple[P, Tensor | str]]:
        ahead = (1 + BATCHES_AHEAD) * self._batch_size
        return map_ahead(partial(decode_for, about=self.about), photos, ahead)

    def _answer(self, images: Iterable[tuple[P, Tensor | str]], top: int) -> Iterator[tuple[list[P], list[Prediction]]]:
        """Yield the predictions of photos, given their pixels or the reason why there are none."""
        waiting: deque[list[tuple[P, Tensor | str]]] = deque()

        def pixels() -> Iterator[Tensor]:
            for batch in _batches(images, self._batch_size):
                waiting.append(batch)
                readable = [image for _, image in batch if not isinstance(image, str)]
                if readable:
                    yield torch.stack(readable)

        for scores in self.engine.stream(pixels()):
            while all(isinstance(image, str) for _, image in waiting[0]):
                yield self._merge(waiting.popleft(), None, top)
            yield self._merge(waiting.popleft(), scores, top)
        while waiting:
            yield self._merge(waiting.popleft(), None, top)

    def _merge(
        self, batch: list[tuple[P, Tensor | str]], scores: Scores | None, top: int
    ) -> tuple[list[P], list[Prediction]]:
        """Return a batch and its predictions in its order, also for those photos that could not be read."""
        names = [str(photo) for photo, image in batch if not isinstance(image, str)]
        known = [] if scores is None else predictions_of(names, scores, self.about, top)
        found = (or_none_of_these(each, self.threshold) for each in known)
        answers = [
            Prediction(str(photo), error=image) if isinstance(image, str) else next(found) for photo, image in batch
        ]
        return [photo for photo, _ in batch], answers


def load(
    path: Path | str,
    head: Head | None = None,
    device: str = "auto",
    classes: Sequence[str] | None = None,
    engine: EngineName = "auto",
    none_of_these: float | None = None,
) -> Predictor:
    """Return the model of a run folder, of its ``model/`` folder, or of an exported ``.onnx`` file, ready to predict.

    ``head``: ``one_hot``, ``semantic`` or ``average``; None is the head of the run. ``classes``: other class names,
    among which the semantic head chooses. ``engine``: what computes the backbone; ``auto`` is OpenVINO or ONNX Runtime
    for large images on CPUs if one of them is installed. ONNX Runtime alone runs an exported file. ``none_of_these``:
    0.01, 0.05 or 0.1; the answer is "none of these" for photos that are less familiar than this part of the photos of
    the classes.

    Examples:
        >>> model = semco.load("runs/first")
        >>> model.class_names
        ('bag', 'coat')
    """
    path = Path(path)
    if path.suffix.lower() == ".onnx" and not path.is_dir():
        if classes is not None or engine not in ("auto", "onnx"):
            raise UserError(f"{path} is an exported model; other classes, or other engines, need the run folder.")
        return Predictor(OnnxEngine(path, head), none_of_these)
    return Predictor(torch_engine(path, head, device, classes, engine), none_of_these)


def map_ahead(work: Any, items: Iterable[Any], ahead: int, threads: int | None = None) -> Iterator[tuple[Any, Any]]:
    """Yield every item with its result, in order; threads work on up to ``ahead`` items that are not asked for yet."""
    pool = ThreadPoolExecutor(threads or os.cpu_count(), thread_name_prefix="semco-decode")
    waiting: deque[tuple[Any, Future[Any]]] = deque()
    try:
        for item in items:
            waiting.append((item, pool.submit(work, item)))
            if len(waiting) >= ahead:
                first, future = waiting.popleft()
                yield first, future.result()
        while waiting:
            first, future = waiting.popleft()
            yield first, future.result()
    finally:
        pool.shutdown(cancel_futures=True)


def _batches(items: Iterable[Any], size: int) -> Iterator[list[Any]]:
    batch = []
    for item in items:
        batch.append(item)
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch


def decode_for(path: Path | Entry, about: About) -> Tensor | str:
    """Return an image file as the model reads it, (C, H, W) uint8, or the reason why it cannot be read."""
    try:
        return square_to_pixels(decode(path, max(about.image_size)), about)
    except DECODE_ERRORS as error:
        return reason_of(error, path)


def square_to_pixels(square: Pixels, about: About) -> Tensor:
    """Return a square RGB image (S, S, 3) as the model reads it, (C, H, W); one that is not square is cropped."""
    height, width = about.image_size
    size = max(height, width)
    top, left = (size - height) // 2, (size - width) // 2
    pixels = square[top : top + height, left : left + width]
    if about.channels == 1:
        pixels = np.asarray(Image.fromarray(pixels).convert("L"))[..., None]
    return torch.from_numpy(pixels.transpose(2, 0, 1).copy())


def array_to_pixels(array: Pixels, about: About) -> Tensor:
    """Return an image (H, W) or (H, W, C) as the model reads it: as a photo with these pixels."""
    image = Image.fromarray(array[..., 0] if array.ndim == 3 and array.shape[2] == 1 else array)
    if (image.height, image.width) == about.image_size:
        pixels = np.asarray(image.convert("L" if about.channels == 1 else "RGB"))
        return torch.from_numpy(pixels.reshape(*about.image_size, -1).transpose(2, 0, 1).copy())
    return square_to_pixels(centre_square(image.convert("RGB"), max(about.image_size)), about)


def as_paths(images: Any) -> list[Path] | None:
    """Return paths of image files, of which one may stand alone; None if the images are arrays."""
    if isinstance(images, str | Path):
        return [Path(images)]
    if isinstance(images, np.ndarray) and images.dtype.kind not in "UO":
        return None
    try:
        items = list(images)
    except TypeError:
        raise UserError(f"images are paths or uint8 arrays, not {brief(images)}.") from None
    if items and all(isinstance(item, str | Path) for item in items):
        return [Path(item) for item in items]
    return None


def as_arrays(images: ArrayLike | Sequence[ArrayLike]) -> Iterator[Pixels]:
    """Yield each image of an array (N, H, W) or (N, H, W, 1 or 3), or of a list of arrays, in uint8."""
    for item in images:  # type: ignore[union-attr]
        array = np.asarray(item)
        is_image = array.ndim == 2 or (array.ndim == 3 and array.shape[2] in (1, 3))
        if not is_image or array.dtype != np.uint8 or 0 in array.shape:
            raise UserError(
                f"an image is an array (H, W) or (H, W, 1 or 3) in uint8, not {array.dtype} {array.shape}; several "
                "images are an array with one more dimension, or a list."
            )
        yield array


def _readable(path: Path, image: Tensor | str) -> Tensor:
    if isinstance(image, str):
        raise UserError(f"image {path} cannot be read ({image}); remove it, or call predict, which names its error.")
    return image
