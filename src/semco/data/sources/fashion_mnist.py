"""Fashion-MNIST (Xiao et al. 2017) from the official IDX files, compressed or not.

Shapes: N images of 28 x 28 pixels.
"""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from semco.config import DataConfig
from semco.data.class_names import FASHION
from semco.data.datasets import Dataset, ProgressCallback, from_arrays
from semco.errors import UserError
from semco.files import exists, expand_home, open_regular

SIDE = 28
FILES = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)
# Bytes of a file that are read at most; the largest official one has 47,040,016.
MOST_BYTES = 1 << 28


def read_fashion_mnist(config: DataConfig, on_progress: ProgressCallback | None = None) -> Dataset:
    """Read Fashion-MNIST from the folder ``config.root``."""
    if config.root is None:
        raise UserError("fashion-mnist is read from its official files: set data.root to the folder that has them.")
    arrays = []
    for done, name in enumerate(FILES):
        arrays.append(_read_idx(_find(expand_home(config.root), name)))
        if on_progress is not None:
            on_progress("reading fashion-mnist", done + 1, len(FILES))
    x_train, y_train, x_test, y_test = arrays
    return from_arrays("fashion-mnist", x_train, y_train.astype(np.int64), FASHION, x_test, y_test.astype(np.int64))


def _find(root: Path, name: str) -> Path:
    for path in (root / f"{name}.gz", root / name):
        if exists(path):
            return path
    raise UserError(f"{root} contains no {name}.gz: put the official files there, or set data.root to another folder.")


def _read_idx(path: Path) -> NDArray[np.uint8]:
    """Return the array of an IDX file: images (N, 28, 28) or labels (N,)."""
    with open_regular(path) as stream:
        try:
            content = _read_limited(gzip.GzipFile(fileobj=stream) if path.suffix == ".gz" else stream)
        except (OSError, EOFError, zlib.error) as error:
            raise UserError(f"{path} is damaged ({error}): download it again.") from None
    dimensions = content[3] if len(content) > 3 else 0
    header = 4 + 4 * dimensions
    shape = tuple(int(n) for n in np.frombuffer(content[4:header], dtype=">u4")) if len(content) >= header else ()
    known = content[:3] == b"\0\0\x08" and (shape[1:] == (SIDE, SIDE) or (len(shape) == 1))
    if not known or len(content) - header != np.prod(shape, dtype=np.int64):
        raise UserError(f"{path} is not an IDX file like the official one: download it again.")
    return np.frombuffer(content, dtype=np.uint8, offset=header).reshape(shape).copy()  # writable, as torch wants


def _read_limited(stream: gzip.GzipFile | BinaryIO) -> bytes:
    content = stream.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise EOFError(f"it has more than {MOST_BYTES} bytes")
    return content
