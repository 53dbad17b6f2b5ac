"""Labels that are there already when a project begins: class folders, or what else `semco train` reads labels from."""

from __future__ import annotations

import os

from semco.config import DataConfig
from semco.data.sources.layouts import list_images
from semco.errors import UserError
from semco.studio.photos import Photos


def found_labels(photos: Photos) -> dict[str, str]:
    """Return the class name of every photo that has one by its place, by the name of the photo."""
    try:
        listing = list_images(photos.root, DataConfig(source=str(photos.root)))
    except UserError:  # no class folders: every photo is without a label
        return {}
    part, prefix = listing.train, len(str(photos.root).rstrip(os.sep)) + 1
    found = {path[prefix:]: listing.class_names[i] for path, i in zip(part.names, part.labels, strict=True) if i >= 0}
    return {name: label for name, label in found.items() if photos.number(name) is not None}
