"""Labels that exist when a project begins: the photos in class folders."""

from __future__ import annotations

import os

from semco.data.folder import class_folder_names, image_files
from semco.errors import UserError
from semco.studio.photos import Photos


def found_labels(photos: Photos) -> dict[str, str]:
    """Return the class name of every photo in a class folder, by the name of the photo."""
    try:
        folders = class_folder_names(photos.root)
    except UserError:  # fewer than two class folders: every photo is without a label
        return {}
    prefix = len(str(photos.root).rstrip(os.sep)) + 1
    found = {path[prefix:]: name for folder, name in folders.items() for path in image_files(folder)[0]}
    return {photo: name for photo, name in found.items() if photos.number(photo) is not None}
