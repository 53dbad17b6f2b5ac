"""CIFAR-10 and CIFAR-100 (Krizhevsky 2009) from the official python files.

These files are pickles, and an unrestricted unpickler can run any code. The reader in this file knows only the three
names that NumPy needs for plain arrays, rebuilds the arrays itself, and refuses a file that refers to any other name.

Shapes: N images.
"""

from __future__ import annotations

import math
import pickle
import pickletools
import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from semco.config import DataConfig
from semco.data.datasets import Dataset, ProgressCallback, from_arrays
from semco.errors import UserError
from semco.files import exists, expand_home, open_regular

SIDE = 32


@dataclass(frozen=True)
class Layout:
    """Names of the official files and of the keys in them."""

    name: str
    folder: str
    train: tuple[str, ...]
    test: str
    meta: str
    labels: str
    label_names: str


CIFAR10 = Layout(
    "cifar10",
    "cifar-10-batches-py",
    tuple(f"data_batch_{i}" for i in range(1, 6)),
    "test_batch",
    "batches.meta",
    "labels",
    "label_names",
)
CIFAR100 = Layout("cifar100", "cifar-100-python", ("train",), "test", "meta", "fine_labels", "fine_label_names")


def read_cifar10(config: DataConfig, on_progress: ProgressCallback | None = None) -> Dataset:
    """Read CIFAR-10 from the folder ``config.root``."""
    return _read(CIFAR10, config, on_progress)


def read_cifar100(config: DataConfig, on_progress: ProgressCallback | None = None) -> Dataset:
    """Read CIFAR-100, with its 100 fine labels, from the folder ``config.root``."""
    return _read(CIFAR100, config, on_progress)


def _read(layout: Layout, config: DataConfig, on_progress: ProgressCallback | None) -> Dataset:
    folder = _find_folder(layout, config.root)
    names = _read_names(folder / layout.meta, layout.label_names)
    parts = []
    files = (*layout.train, layout.test)
    for done, file in enumerate(files):
        if on_progress is not None:
            on_progress(f"reading {layout.name}", done, len(files))
        parts.append(_read_images(folder / file, layout.labels))
    if on_progress is not None:
        on_progress(f"reading {layout.name}", len(files), len(files))
    x_train, y_train = (np.concatenate(part) for part in zip(*parts[:-1], strict=True))
    x_test, y_test = parts[-1]
    return from_arrays(layout.name, x_train, y_train, names, x_test, y_test)


def _find_folder(layout: Layout, root: Path | None) -> Path:
    """Return the folder that contains the files: the official folder in ``root``, or ``root`` itself."""
    if root is None:
        raise UserError(
            f"{layout.name} is read from the official python files: "
            f"set data.root to the folder that contains {layout.folder}/."
        )
    root = expand_home(root)
    for folder in (root / layout.folder, root):
        if exists(folder / layout.meta):
            return folder
    raise UserError(
        f"{root} contains no {layout.folder}/ with the official python files ({layout.meta} is missing): "
        "unpack them there, or set data.root to another folder."
    )


def _read_images(path: Path, key: str) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return the images (N, 32, 32, 3) and labels (N,) of one file, which stores rows of 3 x 32 x 32 values."""
    content = _read_dictionary(path)
    data, labels = content.get("data"), content.get(key)
    rows = (
        isinstance(data, np.ndarray) and data.dtype == np.uint8 and data.ndim == 2 and data.shape[1] == 3 * SIDE * SIDE
    )
    if not rows or not isinstance(labels, list) or len(labels) != len(data):  # type: ignore[arg-type]
        raise UserError(f"{path} does not contain images and {key} like the official file: download it again.")
    if not all(isinstance(label, int) and label.bit_length() < 64 for label in labels):
        raise UserError(
            f"{path}: {key} contains a value that is not a whole number of 64 bits: download the official file again."
        )
    images: NDArray[np.uint8] = np.asarray(data).reshape(-1, 3, SIDE, SIDE).transpose(0, 2, 3, 1)
    return images, np.array(labels, dtype=np.int64)


def _read_names(path: Path, key: str) -> list[str]:
    names = _read_dictionary(path).get(key)
    if not isinstance(names, list) or not all(isinstance(n, str | bytes) for n in names):
        raise UserError(f"{path} does not contain {key} like the official file: download it again.")
    return [_text(n) for n in names]


def _read_dictionary(path: Path) -> Mapping[str, Any]:
    """Return the dictionary in a file; its keys are bytes or text, depending on the Python that wrote it."""
    if not exists(path):
        raise UserError(f"{path} is missing: unpack all of the official files.")
    content = read_plain_pickle(path)
    if not isinstance(content, dict):
        raise UserError(f"{path} does not contain a dictionary like the official file: download it again.")
    return {_text(key): value for key, value in content.items() if isinstance(key, str | bytes)}


def _text(value: str | bytes) -> str:
    return value.decode("latin1") if isinstance(value, bytes) else value


class ForbiddenNameError(pickle.UnpicklingError):
    """A pickle refers to a name that plain data does not need."""


class _PickledType:
    """The element type of a pickled array: a whole or floating-point number; any other type is refused."""

    code, order = "", "|"

    def __init__(self, code: object, *_: object) -> None:
        if not isinstance(code, str | bytes):
            raise pickle.UnpicklingError("the type of an array has no name")
        self.code = _text(code)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.order = _text(state[1])

    def dtype(self) -> np.dtype[Any]:
        if not re.fullmatch("[iuf][1248]", self.code) or self.order not in "<>|=":
            raise pickle.UnpicklingError(f"an array has the type {self.order}{self.code}"[:80])
        return np.dtype(self.order + self.code)


class _PickledArray(np.ndarray[Any, np.dtype[Any]]):
    """An array that is rebuilt from plain bytes: NumPy's own reader of a damaged pickle can crash the process."""

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _, shape, kind, is_fortran, content = state
        if not isinstance(kind, _PickledType) or not isinstance(content, bytes):
            raise pickle.UnpicklingError("an array does not contain plain bytes")
        if not all(type(length) is int and length >= 0 for length in shape):
            raise pickle.UnpicklingError("the shape of an array is not made of whole numbers")
        dtype = kind.dtype()
        if math.prod(shape) * dtype.itemsize != len(content):
            raise pickle.UnpicklingError("an array does not have the size of its shape")
        super().__setstate__((1, tuple(shape), dtype, bool(is_fortran), content))  # type: ignore[arg-type]


def _empty_array(*_: object) -> _PickledArray:
    """Return the empty array that an unpickler makes before it sets the content."""
    return np.ndarray.__new__(_PickledArray, (0,), np.uint8)


class PlainUnpickler(pickle.Unpickler):
    """An unpickler for plain data: dictionaries, lists, text, numbers and arrays of numbers.

    The names that NumPy's pickles refer to stand for objects of this file, which check what they are given.
    """

    ALLOWED: Mapping[tuple[str, str], Any] = {
        ("numpy", "ndarray"): "ndarray",  # an argument of _reconstruct
        ("numpy", "dtype"): _PickledType,
        # The same function under its names in NumPy 1 (and the official files) and NumPy 2.
        ("numpy.core.multiarray", "_reconstruct"): _empty_array,
        ("numpy._core.multiarray", "_reconstruct"): _empty_array,
    }

    def find_class(self, module: str, name: str) -> Any:
        try:
            return self.ALLOWED[module, name]
        except KeyError:
            raise ForbiddenNameError(f"{module}.{name}") from None


# Errors of the unpickler for bytes that are not a pickle, or a pickle that uses the allowed names wrongly.
_PICKLE_ERRORS = (
    pickle.UnpicklingError,
    EOFError,
    AttributeError,
    ImportError,
    LookupError,
    MemoryError,
    OSError,
    OverflowError,
    RuntimeError,
    SystemError,
    TypeError,
    ValueError,
    struct.error,
)
# Operations that store an object at a position of the unpickler's memory, which grows to that position.
_MEMORY_OPERATIONS = frozenset({"PUT", "BINPUT", "LONG_BINPUT"})


def read_plain_pickle(path: Path) -> Any:
    """Return the content of a pickle of plain data; refuse any other pickle."""
    with open_regular(path) as stream:
        try:
            _check_memory(stream, path.stat().st_size)
            stream.seek(0)
            # A Python 2 string may contain image rows: reading it as bytes does not change them.
            return PlainUnpickler(stream, encoding="bytes").load()
        except ForbiddenNameError as error:
            raise UserError(
                f"{path} is refused: it refers to {error}, which no CIFAR file needs and which may run code; "
                "download the official file."
            ) from None
        except _PICKLE_ERRORS as error:
            kind = type(error).__name__
            raise UserError(f"{path} is damaged ({kind}: {error}): download the official file again.") from None


def _check_memory(stream: BinaryIO, size: int) -> None:
    """Refuse a pickle that reserves more memory than its ``size`` in bytes can need."""
    for operation, argument, _ in pickletools.genops(stream):
        if operation.name in _MEMORY_OPERATIONS and argument is not None and argument > size:
            raise pickle.UnpicklingError(f"it stores an object at position {argument} of {size} bytes")
