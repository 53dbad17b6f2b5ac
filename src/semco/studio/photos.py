"""The photos of a folder: their names by number, thumbnails and larger previews.

The page refers to photos only by number, so that no request can ask for another file. Photos in test/CLASS have no
number: they are never shown and never trained on, and serve to test a model.
"""

from __future__ import annotations

import hashlib
import io
import os
import tempfile
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path

from PIL import Image

from semco.data.decode import DECODE_ERRORS, read_image, reason_of
from semco.data.folder import class_folder_names, image_files, test_class_folders
from semco.data.names import readable_class
from semco.errors import UserError
from semco.files import absolute, no_such

# Shorter side of a thumbnail, longer side of a preview, in pixels, and how far a thumbnail may be from square.
THUMBNAIL, PREVIEW, LONGEST = 224, 1600, 2.0
END_OF_JPEG = b"\xff\xd9"


class UnreadableError(UserError):
    """A photo that cannot be read, and why."""


class Photos:
    """The photos below a folder, sorted; only their names are held in memory."""

    def __init__(self, root: Path, cache: Path) -> None:
        self.root, self._cache = absolute(root), cache
        if not self.root.is_dir():
            raise no_such("folder", root)
        prefix = len(str(self.root).rstrip(os.sep)) + 1
        blind = {str(folder): readable_class(folder.name) for folder in test_class_folders(self.root)}
        tests = {os.path.dirname(folder) + os.sep for folder in blind}  # noqa: PTH120 (a million strings)
        self.names: list[str] = []
        self.test: dict[str, str] = {}  # name of a photo below test/ -> name of its class
        for path in image_files(self.root)[0]:
            above = next((each for each in tests if path.startswith(each)), None)
            label = None if above is None else blind.get(above + path[len(above) :].partition(os.sep)[0])
            if label is None:
                self.names.append(path[prefix:])
            else:
                self.test[path[prefix:]] = label
        if not self.names:
            raise UserError(f"{root} contains no photos; give a folder with some.")
        self.cannot_store = ""  # why thumbnails are not kept, if they are not
        for unfinished in cache.glob("*.tmp"):  # by a process that was killed
            unfinished.unlink(missing_ok=True)

    def __len__(self) -> int:
        return len(self.names)

    @cached_property
    def _numbers(self) -> Mapping[str, int]:
        return {name: number for number, name in enumerate(self.names)}

    def number(self, name: str) -> int | None:
        """Return the number of a photo; None if the photo no longer exists."""
        return self._numbers.get(name)

    def numbered(self, values: Mapping[str, int]) -> dict[int, int]:
        """Return values by the number of their photo instead of its name; photos that are gone are left out."""
        return {number: value for name, value in values.items() if (number := self.number(name)) is not None}

    def name(self, number: int) -> str:
        if not 0 <= number < len(self.names):
            raise UserError(f"there is no photo number {number}; there are {len(self.names):,}.")
        return self.names[number]

    def path(self, number: int) -> Path:
        return self.root / self.name(number)

    def is_there(self) -> bool:
        return self.root.is_dir()

    def thumbnail(self, number: int) -> bytes:
        """Return the thumbnail of a photo as JPEG: upright, made once and then read from the disk."""
        path = self.path(number)
        stored = self._stored(number, path)
        if stored.is_file() and (content := stored.read_bytes()).endswith(END_OF_JPEG):
            return content
        content = as_jpeg(self._image(path, THUMBNAIL), THUMBNAIL, LONGEST)
        self._store(stored, content)
        return content

    def preview(self, number: int) -> bytes:
        """Return a photo as JPEG that fits a screen."""
        image = self._image(self.path(number), PREVIEW)
        image.thumbnail((PREVIEW, PREVIEW))
        return _encode(image, 88)

    def _image(self, path: Path, size: int) -> Image.Image:
        try:
            return read_image(path, size)
        except DECODE_ERRORS as error:
            raise UnreadableError(f"{path.name} cannot be read: {reason_of(error, path)}.") from None

    def _stored(self, number: int, path: Path) -> Path:
        """Return the file of a thumbnail; its name depends on the photo's name, size and time of change."""
        try:
            found = path.stat()
        except OSError as error:
            raise UnreadableError(f"{path} cannot be read: {error.strerror}; restore it.") from None
        key = f"{self.name(number)}\0{found.st_size}\0{found.st_mtime_ns}\0{THUMBNAIL}"
        digest = hashlib.sha256(key.encode(errors="surrogateescape")).hexdigest()[:32]
        return self._cache / digest[:2] / f"{digest[2:]}.jpg"

    def _store(self, target: Path, content: bytes) -> None:
        """Keep a thumbnail, if there is space; a file that a kill cut short is recognised by its end."""
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=self._cache, suffix=".tmp", delete=False) as file:
                file.write(content)
            Path(file.name).replace(target)
            self.cannot_store = ""
        except OSError as error:
            self.cannot_store = f"Thumbnails cannot be stored ({error.strerror or error}); make space on the disk."


def as_jpeg(image: Image.Image, side: int, longest: float) -> bytes:
    """Return an image with the shorter side ``side``; if the longer one is too long, its centre."""
    width, height = image.size
    most = longest * min(width, height)
    left, top = max(0.0, (width - most) / 2), max(0.0, (height - most) / 2)
    box = (left, top, width - left, height - top)
    scale = side / min(width, height)
    size = (max(1, round((box[2] - box[0]) * scale)), max(1, round((box[3] - box[1]) * scale)))
    return _encode(image.resize(size, Image.Resampling.BICUBIC, box=box), 80)


def _encode(image: Image.Image, quality: int) -> bytes:
    content = io.BytesIO()
    image.save(content, "JPEG", quality=quality)
    return content.getvalue()


def found_labels(photos: Photos) -> dict[str, str]:
    """Return the class name of every photo in a class folder, by the name of the photo."""
    try:
        folders = class_folder_names(photos.root)
    except UserError:  # fewer than two class folders: every photo is without a label
        return {}
    prefix = len(str(photos.root).rstrip(os.sep)) + 1
    found = {path[prefix:]: name for folder, name in folders.items() for path in image_files(folder)[0]}
    return {photo: name for photo, name in found.items() if photos.number(photo) is not None}
