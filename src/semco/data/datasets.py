"""A data set in memory, and the selection of classes by name.

Shapes: N training images, T test images, C channels (1 or 3), H height, W width, K classes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from semco.data.listing import UNLABELLED
from semco.data.names import ClassIndex, shown_name
from semco.data.storage.mapped import in_chunks
from semco.errors import UserError, nearest

# Called during slow work with a description of the work, the number of items done, and their total number. With 0 items
# done, the description is an announcement that stays visible.
ProgressCallback = Callable[[str, int, int], None]

# Images that are processed at a time where processing all of them at once would take too much memory.
CHUNK = 512


@dataclass(frozen=True)
class Dataset:
    """Images as uint8 pixels and labels as class ids; the label -1 marks an unlabelled training image."""

    name: str
    train_images: Tensor  # (N, C, H, W) uint8
    train_labels: Tensor  # (N,) int64, -1..K-1
    class_names: tuple[str, ...]
    test_images: Tensor | None = None  # (T, C, H, W) uint8
    test_labels: Tensor | None = None  # (T,) int64, 0..K-1
    train_paths: tuple[str, ...] | None = None  # one per image, if the source is a folder
    test_paths: tuple[str, ...] | None = None
    held_out: Tensor | None = None  # (N,) bool, training images that the source holds out for validation
    skipped: tuple[str, ...] = ()  # images that could not be read, with the reason
    ignored: Mapping[str, int] = field(default_factory=dict)  # other files in the folder: their number per suffix
    notes: tuple[str, ...] = ()  # what the user should know about how the source was read
    # Mean and standard deviation of each channel that the data set is published with; None: computed from the images.
    normalisation: tuple[tuple[float, ...], tuple[float, ...]] | None = None

    @property
    def num_classes(self) -> int:
        return len(self.class_names)

    @property
    def channels(self) -> int:
        return self.train_images.shape[1]

    @property
    def image_size(self) -> tuple[int, int]:
        """Height and width."""
        return self.train_images.shape[2], self.train_images.shape[3]

    @property
    def mean(self) -> tuple[float, ...]:
        """Mean of each channel over the training images, with pixels scaled to [0, 1]."""
        return self._mean_and_std[0]

    @property
    def std(self) -> tuple[float, ...]:
        """Standard deviation of each channel; at least one grey level (1 / 255), because images are divided by it."""
        return self._mean_and_std[1]

    @cached_property
    def _mean_and_std(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Mean and standard deviation from a histogram per channel, which is fast and exact up to the last division."""
        if self.normalisation is not None:
            return self.normalisation
        levels = range(256)
        mean, std = [], []
        for histogram in _histograms(self.train_images).tolist():
            count = sum(histogram)
            total = sum(n * v for n, v in zip(histogram, levels, strict=True))
            squares = sum(n * v * v for n, v in zip(histogram, levels, strict=True))
            mean.append(total / count / 255)
            std.append(max(1.0, (count * squares - total * total) ** 0.5 / count) / 255)
        return tuple(mean), tuple(std)

    def with_classes(self, wanted: Sequence[str]) -> Dataset:
        """Return the data set with only these classes, in this order; unlabelled training images are kept."""
        chosen = choose_classes(self.class_names, wanted)
        if chosen == list(range(self.num_classes)):
            return self
        new_label = torch.full((self.num_classes + 1,), -2)
        new_label[torch.tensor(chosen)] = torch.arange(len(chosen))
        new_label[UNLABELLED] = UNLABELLED
        train = new_label[self.train_labels]
        kept = train >= UNLABELLED
        smaller = replace(
            self,
            train_images=self.train_images if bool(kept.all()) else self.train_images[kept],
            train_labels=train[kept],
            class_names=tuple(self.class_names[i] for i in chosen),
            train_paths=_select(self.train_paths, kept),
            held_out=None if self.held_out is None else self.held_out[kept],
        )
        if self.test_images is None or self.test_labels is None:
            return smaller
        test = new_label[self.test_labels]
        kept = test >= 0
        return replace(
            smaller,
            test_images=self.test_images[kept],
            test_labels=test[kept],
            test_paths=_select(self.test_paths, kept),
        )

    def without_unlabelled_classes(self) -> Dataset:
        """Return the data set without the classes that have no labelled training image left, which a note names."""
        counts = torch.bincount(self.train_labels[self.train_labels >= 0], minlength=self.num_classes)
        missing = [name for name, count in zip(self.class_names, counts.tolist(), strict=True) if not count]
        if not missing:
            return self
        if self.num_classes - len(missing) < 2:
            raise UserError(f"no image of class {missing[0]!r} in {self.name} can be read: add images that can.")
        kept = self.with_classes([name for name in self.class_names if name not in set(missing)])
        note = f"no image of {len(missing)} class(es) can be read, which are left out: {', '.join(missing[:5])}"
        return replace(kept, notes=(*self.notes, note))

    def resized(self, size: int) -> Dataset:
        """Return the data set with square images: the shorter side is resized to ``size`` pixels, the centre kept."""
        if self.image_size == (size, size):
            return self
        test = None if self.test_images is None else resize_images(self.test_images, size)
        return replace(self, train_images=resize_images(self.train_images, size), test_images=test)


def _histograms(images: Tensor) -> Tensor:
    """Return how often each value occurs in each channel: (N, C, H, W) uint8 -> (C, 256) int64."""
    counts = torch.zeros((images.shape[1], 256), dtype=torch.int64)
    for chunk in in_chunks(images, CHUNK):
        for channel, count in enumerate(counts):
            count += torch.bincount(chunk[:, channel].flatten(), minlength=256)
    return counts


def _select(paths: tuple[str, ...] | None, kept: Tensor) -> tuple[str, ...] | None:
    return None if paths is None else tuple(p for p, k in zip(paths, kept.tolist(), strict=True) if k)


def resize_images(images: Tensor, size: int) -> Tensor:
    """Resize with antialiasing and crop the centre: (N, C, H, W) uint8 -> (N, C, size, size) uint8."""
    height, width = images.shape[2:]
    scale = size / min(height, width)
    shape = (max(size, round(height * scale)), max(size, round(width * scale)))
    top, left = (shape[0] - size) // 2, (shape[1] - size) // 2
    result = images.new_empty((len(images), images.shape[1], size, size))
    for start in range(0, len(images), CHUNK):
        chunk = images[start : start + CHUNK]
        whole = F.interpolate(chunk.float(), shape, mode="bilinear", antialias=True)
        centre = whole[:, :, top : top + size, left : left + size]
        result[start : start + CHUNK] = centre.round_().clamp_(0, 255)
    return result


def choose_classes(known: Sequence[str], wanted: Sequence[str]) -> list[int]:
    """Return the positions of the wanted class names among the known ones, in the order wanted."""
    if len(wanted) < 2:
        raise UserError(f"data.classes = {list(wanted)} names fewer than two classes: name at least two.")
    chosen = [find_class(known, name, "class") for name in wanted]
    for position in chosen:
        if chosen.count(position) > 1:
            raise UserError(f"class {known[position]!r} occurs twice in data.classes: name it once.")
    return chosen


def find_class(known: Sequence[str], name: str, kind: str) -> int:
    """Return the position of a class, as `ClassIndex` finds it; ``kind`` is what error messages call it."""
    position = ClassIndex(known).find(name)
    if position is not None:
        return position
    name = shown_name(name)
    some = ", ".join(known[:20]) + (", ..." if len(known) > 20 else "")
    raise UserError(f"unknown {kind} {name!r}{nearest(name, known) or '.'} Known: {some}.")


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
