"""Checksums of what decides the result of a run, so that a change is noticed when the run is resumed or evaluated.

A small JSON file carries a checksum of its own content. A checkpoint and a saved model carry the seal of the whole
problem: configuration, split, labels, images and label vectors.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from semco.data.datasets import Dataset
from semco.data.split import label_checksum
from semco.data.storage.mapped import in_chunks
from semco.errors import UserError
from semco.files import read_json_object, write_json

DIGEST = "digest"
# Label vectors are compared as numbers, because machines round differently.
VECTORS, TOLERANCE = "label vectors", 1e-3
# Images at a time, so that images that are not contiguous are not copied all at once.
CHUNK = 512


def digest_of(values: Any) -> str:
    """Return a checksum of values that JSON can hold."""
    return hashlib.blake2b(json.dumps(values, sort_keys=True).encode(), digest_size=16).hexdigest()


def write_with_digest(file: Path, values: Mapping[str, Any]) -> None:
    """Write a JSON file with a checksum of its name and content, so that another file in its place is noticed, too."""
    write_json(file, {**values, DIGEST: digest_of([file.name, values])})


def read_with_digest(file: Path) -> dict[str, Any]:
    """Return the content of a JSON file without its checksum; raise a `UserError` if it was edited or damaged."""
    values = read_json_object(file)
    content = {name: value for name, value in values.items() if name != DIGEST}
    if values.get(DIGEST) != digest_of([file.name, content]):
        raise UserError(f"{file} was edited or damaged after it was written: restore it, or start a new run.")
    return content


def broken_seals(sealed: Mapping[str, Any], current: Mapping[str, Any]) -> list[str]:
    """Return the names of the parts that differ from what was sealed; parts that only one of them has are left out."""
    shared = [name for name in sealed if name in current]
    return [name for name in shared if not _is_same(name, sealed[name], current[name])]


def _is_same(name: str, sealed: Any, current: Any) -> bool:
    if name != VECTORS:
        return bool(sealed == current)
    is_list = isinstance(sealed, list) and len(sealed) == len(current)
    return is_list and bool(np.allclose(sealed, current, atol=TOLERANCE))


class DataSeal:
    """Checksums of the images, labels and class names of a data set, by name; computed once, when first asked for."""

    def __init__(self, dataset: Dataset) -> None:
        self._dataset = dataset

    @cached_property
    def values(self) -> dict[str, Any]:
        dataset = self._dataset
        images, labels = dataset.test_images, dataset.test_labels
        return {
            "class names": digest_of(list(dataset.class_names)),
            "training images": image_digest(dataset.train_images),
            "training labels": label_checksum(dataset.train_labels),
            "test images": None if images is None else image_digest(images),
            "test labels": None if labels is None else label_checksum(labels),
        }


def image_digest(images: Tensor) -> str:
    """Return a checksum of the shape and the pixels of images (N, C, H, W) uint8."""
    total = hashlib.blake2b(repr(tuple(images.shape)).encode(), digest_size=16)
    for chunk in in_chunks(images, CHUNK):
        total.update(chunk.contiguous().numpy().data)
    return total.hexdigest()
