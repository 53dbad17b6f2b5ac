"""Data sets from NumPy arrays: images and labels are checked, and images are stored as (N, C, H, W).

Shapes: N images, C channels, H height, W width.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from semco.data.datasets import Dataset
from semco.data.listing import UNLABELLED
from semco.errors import UserError

Array = NDArray[Any]


def from_arrays(
    name: str,
    x_train: Array,
    y_train: Array,
    class_names: Sequence[str],
    x_test: Array | None = None,
    y_test: Array | None = None,
) -> Dataset:
    """Return a data set of uint8 images (N, H, W), (N, H, W, 1) or (N, H, W, 3) and labels (N,), -1 = unlabelled.

    Error messages call the data ``name``.
    """
    names = check_class_names(name, class_names)
    images = _to_images(name, "x_train", x_train)
    labels = _to_labels(name, "y_train", y_train, len(images), names, lowest=UNLABELLED)
    if x_test is None and y_test is None:
        return Dataset(name, images, labels, names)
    if x_test is None or y_test is None:
        raise UserError(f"{name} has only one of x_test and y_test: provide both or neither.")
    test = _to_images(name, "x_test", x_test)
    if test.shape[1:] != images.shape[1:]:
        raise UserError(
            f"{name}: x_test has shape {x_test.shape} and x_train {x_train.shape}: "
            "all images must have the same height, width and channels."
        )
    test_labels = _to_labels(name, "y_test", y_test, len(test), names, lowest=0)
    return Dataset(name, images, labels, names, test, test_labels)


def check_class_names(name: str, class_names: Sequence[str]) -> tuple[str, ...]:
    """Return the class names as a tuple, after checking that there are at least two and that all differ."""
    names = tuple(str(n) for n in class_names)
    if len(names) < 2:
        raise UserError(f"{name} has {len(names)} class(es): a classifier needs at least two.")
    for one in names:
        if not one.strip():
            raise UserError(f"{name} has a class with an empty name: give every class a name.")
        if "\0" in one:
            raise UserError(f"{name} has a class named {one!r}: a name cannot hold a NUL character.")
        if names.count(one) > 1:
            raise UserError(f"{name} has two classes named {one!r}: give each class its own name.")
    return names


def _to_images(name: str, key: str, array: Array) -> Tensor:
    """Return the images as a contiguous uint8 tensor (N, C, H, W)."""
    if array.dtype != np.uint8:
        raise UserError(
            f"{name}: {key} has type {array.dtype}, but images are uint8 (0 to 255): convert them, "
            "for example (255 * x).round().astype('uint8') for values from 0 to 1."
        )
    allowed = array.ndim == 3 or (array.ndim == 4 and array.shape[3] in (1, 3))
    if not allowed or 0 in array.shape:
        raise UserError(f"{name}: {key} has shape {array.shape}, but images are (N, H, W) or (N, H, W, 3).")
    if array.ndim == 3:
        array = array[..., None]
    return torch.from_numpy(np.ascontiguousarray(array.transpose(0, 3, 1, 2)))


def _to_labels(name: str, key: str, array: Array, images: int, names: tuple[str, ...], lowest: int) -> Tensor:
    """Return the labels as an int64 tensor (N,), after checking that each is from ``lowest`` to K - 1."""
    if array.dtype.kind not in "iu":
        raise UserError(f"{name}: {key} has type {array.dtype}, but labels are whole numbers: use int64.")
    if array.shape != (images,):
        raise UserError(f"{name}: {key} has shape {array.shape}, but {images} images need ({images},).")
    low, high = int(array.min()), int(array.max())
    wrong = low if low < lowest else high
    if not lowest <= wrong < len(names):
        raise UserError(
            f"{name}: {key} contains the label {wrong}, but with {len(names)} classes labels are {lowest} to "
            f"{len(names) - 1}{' (-1 = unlabelled)' if lowest < 0 else ''}."
        )
    return torch.from_numpy(array.astype(np.int64))
