"""From the entries of a listing to a data set of uint8 pixels: every image is decoded once, by several threads.

The pixels are stored in memory or, if they are many, in a memory-mapped file that later runs use again.

Shapes: N images, S height and width.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from semco.config import DataConfig
from semco.data.datasets import Dataset, ProgressCallback
from semco.data.decode import default_image_size
from semco.data.listing import Listing, Part
from semco.data.storage.decoder import PartDecoder
from semco.data.storage.pixel_cache import read_cached
from semco.errors import UserError


@dataclass(frozen=True)
class Decoded:
    """The images of a part that could be read, and the names of the others with the reasons."""

    images: Tensor | None  # (N, 3, S, S) uint8
    labels: Tensor | None  # (N,) int64
    held_out: Tensor | None  # (N,) bool
    paths: tuple[str, ...] | None
    skipped: tuple[str, ...]


def read_listing(
    name: str, listing: Listing, config: DataConfig, on_progress: ProgressCallback | None = None
) -> Dataset:
    """Decode the images of a listing; those that cannot be read are skipped and listed in `Dataset.skipped`."""
    size = config.image_size or default_image_size(listing.train)
    train = _decode_part(listing.train, size, config, on_progress, "reading training images")
    test = _decode_part(listing.test, size, config, on_progress, "reading test images")
    if train.images is None or train.labels is None:
        raise UserError(f"none of the {len(train.skipped)} images in {name} can be read: check the files.")
    dataset = Dataset(
        name=name,
        train_images=train.images,
        train_labels=train.labels,
        class_names=listing.class_names,
        test_images=test.images,
        test_labels=test.labels,
        train_paths=train.paths,
        test_paths=test.paths,
        held_out=train.held_out,
        skipped=(*train.skipped, *test.skipped),
        ignored=listing.ignored,
        notes=listing.notes,
    )
    return dataset.without_unlabelled_classes()


def _decode_part(part: Part, size: int, config: DataConfig, on_progress: ProgressCallback | None, work: str) -> Decoded:
    if not len(part):
        return Decoded(None, None, None, None, ())
    in_file = len(part) * 3 * size * size > config.memory << 20
    with PartDecoder(part, size, config.strict) as decoder:
        if in_file:
            images, skipped = read_cached(decoder, on_progress, work)
        else:
            images, skipped = _read_into_memory(decoder, on_progress, work)
    return _decoded(part, images, skipped)


def _read_into_memory(
    decoder: PartDecoder, on_progress: ProgressCallback | None, work: str
) -> tuple[Tensor | None, list[tuple[int, str]]]:
    """Return the images that could be read, and the positions of the others with the reasons."""
    images = torch.from_numpy(np.empty((len(decoder.part), 3, decoder.size, decoder.size), np.uint8))
    skipped: list[tuple[int, str]] = []
    end = 0
    for number in range(math.ceil(len(decoder.part) / decoder.chunk_rows)):
        chunk = decoder(number)
        images[end : end + len(chunk.rows)] = torch.from_numpy(chunk.rows)
        end += len(chunk.rows)
        skipped += [(position, reason) for position, reason in chunk.note or ()]
        if on_progress is not None:
            on_progress(work, end + len(skipped), len(decoder.part))
    return images[:end] if end else None, skipped


def _decoded(part: Part, images: Tensor | None, skipped: Sequence[tuple[int, str]]) -> Decoded:
    """Return the images with their labels and names."""
    reasons = tuple(f"{part.names[position]} ({reason})" for position, reason in skipped)
    if images is None:
        return Decoded(None, None, None, None, reasons)
    kept = np.ones(len(part), dtype=bool)
    kept[[position for position, _ in skipped]] = False
    assert len(images) == int(kept.sum())
    names = part.names if kept.all() else [part.names[i] for i in np.flatnonzero(kept)]
    labels, held_out = (torch.from_numpy(np.array(column)[kept]) for column in (part.labels, part.held_out))
    return Decoded(images, labels.long(), held_out.bool(), tuple(names), reasons)
