"""Decoded images in a file that all runs on the same images use.

The file is identified by the image size, the version of the decoder, and the path, size and times of each image file.
The content of the images is not read, which would take as long as decoding. The times include that of the last change
of the inode (ctime), which changes even when an archive is unpacked over other files with the old dates.

Shapes: N images, S height and width.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from functools import lru_cache
from pathlib import Path

import numpy as np
import PIL
from torch import Tensor

from semco.data.datasets import ProgressCallback
from semco.data.decode import DECODING
from semco.data.listing import FILES, Part
from semco.data.storage.chunks import ChunkedFile, Record
from semco.data.storage.decoder import PartDecoder
from semco.data.storage.folders import remove_oldest
from semco.data.storage.mapped import map_tensor
from semco.errors import data_size
from semco.files import cache_folder, cache_limit

NAME, DATA = "pixels", "pixels.u8"
# Default limit in bytes on all files of pixels; the least recently used are removed.
MOST_CACHED = 50 * 10**9


def read_cached(
    decoder: PartDecoder, on_progress: ProgressCallback | None, work: str
) -> tuple[Tensor | None, list[tuple[int, str]]]:
    """Return the images of a part from their file, and the positions of unreadable ones with the reasons.

    The file is made first, if no run before has made it.
    """
    folder = cache_folder(NAME)
    root = folder or Path(tempfile.mkdtemp(prefix="semco-"))
    try:
        return _read(decoder, root, on_progress, work)
    finally:
        if folder is None:  # nobody else can use it; on POSIX systems its pages stay until they are no longer used
            shutil.rmtree(root, ignore_errors=True)


def _read(
    decoder: PartDecoder, root: Path, on_progress: ProgressCallback | None, work: str
) -> tuple[Tensor | None, list[tuple[int, str]]]:
    file = pixel_file(root, decoder)
    records = file.finished()
    while True:
        if records is None:
            records = _make(file, decoder, on_progress, work)
        rows = sum(each.rows for each in records)
        try:
            images = map_tensor(file.data, (rows, *file.shape[1:])) if rows else None
        except FileNotFoundError:  # another process has just removed it
            records = None
            continue
        file.mark_used()
        return images, [(position, reason) for each in records for position, reason in each.note or ()]


def pixel_file(root: Path, decoder: PartDecoder) -> ChunkedFile:
    """Return where the pixels of a part are, or will be."""
    size = decoder.size
    return ChunkedFile(
        data=root / key(decoder.part, size) / DATA,
        dtype=np.dtype(np.uint8),
        shape=(len(decoder.part), 3, size, size),
        chunk_rows=decoder.chunk_rows,
        content=f"{len(decoder.part):,} images of {size} x {size} pixels",
        advice="set a smaller data.image_size, or XDG_CACHE_HOME to a folder on a larger disk",
    )


def _make(file: ChunkedFile, decoder: PartDecoder, on_progress: ProgressCallback | None, work: str) -> list[Record]:
    def report(done: int, total: int) -> None:
        if on_progress is not None:
            on_progress(work, done, total)

    if on_progress is not None:
        room = f"{data_size(file.size)} in {file.folder}"
        on_progress(f"{work}: {file.content} take {room}, once for all runs", 0, file.shape[0])
    remove_oldest(file.folder.parent, file.folder, max(0, cache_limit(MOST_CACHED) - file.size))
    return file.fill(decoder, report)


def key(part: Part, size: int) -> str:
    """Return the name of the folder for the pixels of a part."""
    digest = hashlib.blake2b(json.dumps([DECODING, PIL.__version__, size]).encode(), digest_size=16)
    state = lru_cache(maxsize=4096)(_state)  # many images can be in one archive
    for entry in part:
        file = entry.name if entry.store is FILES else str(entry.file())
        digest.update(f"{entry.name}\0{entry.place}\0{entry.size}\0{state(file)}\n".encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


def _state(file: str) -> str:
    """Return what changes when a file is replaced or changed."""
    try:
        found = os.stat(file)  # noqa: PTH116 (a path object would take longer than the call)
    except (OSError, ValueError):
        return "missing"
    place = os.path.abspath(file)  # noqa: PTH100
    return f"{place}\0{found.st_size}\0{found.st_mtime_ns}\0{found.st_ctime_ns}"
