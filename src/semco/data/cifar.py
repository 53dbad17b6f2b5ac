"""CIFAR-10 and CIFAR-100 (Krizhevsky 2009) from the official python files.

Those files are pickles, which may run any code when read freely. The reader here knows three names, those that
NumPy's plain arrays are made of, and refuses a file that asks for another.

Shapes: N images.
"""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from semco.config import DataConfig
from semco.data.arrays import from_arrays
from semco.data.datasets import Dataset, ProgressCallback
from semco.errors import UserError

SIDE = 32


@dataclass(frozen=True)
class Layout:
    """What the official files are called and hold."""

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


def read_cifar10(config: DataConfig, report: ProgressCallback | None = None) -> Dataset:
    return _read(CIFAR10, config, report)


def read_cifar100(config: DataConfig, report: ProgressCallback | None = None) -> Dataset:
    return _read(CIFAR100, config, report)


def _read(layout: Layout, config: DataConfig, report: ProgressCallback | None) -> Dataset:
    folder = _find(layout, config.root)
    names = _strings(folder / layout.meta, layout.label_names)
    parts = []
    files = (*layout.train, layout.test)
    for done, file in enumerate(files):
        if report is not None:
            report(f"reading {layout.name}", done, len(files))
        parts.append(_images(folder / file, layout.labels))
    if report is not None:
        report(f"reading {layout.name}", len(files), len(files))
    x_train, y_train = (np.concatenate(part) for part in zip(*parts[:-1], strict=True))
    x_test, y_test = parts[-1]
    return from_arrays(layout.name, x_train, y_train, names, x_test, y_test)


def _find(layout: Layout, root: Path | None) -> Path:
    """The folder of the files: below the root, or the root itself."""
    if root is None:
        raise UserError(
            f"{layout.name} is read from the official python files: "
            f"give the folder that holds {layout.folder}/ as --data-root."
        )
    root = root.expanduser()
    for folder in (root / layout.folder, root):
        if (folder / layout.meta).is_file():
            return folder
    raise UserError(
        f"{root} holds no {layout.folder}/ with the official python files ({layout.meta} is missing): "
        "unpack them there, or name another --data-root."
    )


def _images(path: Path, key: str) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """(N, 32, 32, 3) and (N,) of one file, which holds rows of 3 x 32 x 32 values."""
    content = _content(path)
    data, labels = content.get("data"), content.get(key)
    rows = (
        isinstance(data, np.ndarray) and data.dtype == np.uint8 and data.ndim == 2 and data.shape[1] == 3 * SIDE * SIDE
    )
    if not rows or not isinstance(labels, list) or len(labels) != len(data):  # type: ignore[arg-type]
        raise UserError(f"{path} does not hold images and {key} as the official file does: get it again.")
    if not all(isinstance(label, int) for label in labels):
        raise UserError(f"{path}: {key} holds something that is not a whole number: get the file again.")
    images: NDArray[np.uint8] = data.reshape(-1, 3, SIDE, SIDE).transpose(0, 2, 3, 1)  # type: ignore[union-attr]
    return images, np.array(labels, dtype=np.int64)


def _strings(path: Path, key: str) -> list[str]:
    names = _content(path).get(key)
    if not isinstance(names, list) or not all(isinstance(n, str | bytes) for n in names):
        raise UserError(f"{path} does not hold {key} as the official file does: get it again.")
    return [_text(n) for n in names]


def _content(path: Path) -> Mapping[str, Any]:
    """The dictionary of a file; its keys are bytes or text, by the Python that wrote it."""
    if not path.is_file():
        raise UserError(f"{path} is missing: unpack all of the official files.")
    content = read_plain_pickle(path)
    if not isinstance(content, dict):
        raise UserError(f"{path} does not hold a dictionary as the official file does: get it again.")
    return {_text(key): value for key, value in content.items()}


def _text(value: object) -> str:
    return value.decode("latin1") if isinstance(value, bytes) else str(value)


class Refused(pickle.UnpicklingError):
    """The file asks for a name that a data file has no need of."""


# NumPy's own function for arrays that are read back, from where it hands it out.
_RECONSTRUCT = np.empty(0).__reduce__()[0]


class PlainUnpickler(pickle.Unpickler):
    """Builds what needs no code (dictionaries, lists, text, numbers) and NumPy arrays."""

    ALLOWED: Mapping[tuple[str, str], Any] = {
        ("numpy", "ndarray"): np.ndarray,
        ("numpy", "dtype"): np.dtype,
        # The same function under its names in NumPy 1 (and the official files) and NumPy 2.
        ("numpy.core.multiarray", "_reconstruct"): _RECONSTRUCT,
        ("numpy._core.multiarray", "_reconstruct"): _RECONSTRUCT,
    }

    def find_class(self, module: str, name: str) -> Any:
        try:
            return self.ALLOWED[module, name]
        except KeyError:
            raise Refused(f"{module}.{name}") from None


# What the unpickler raises for bytes that are no pickle, or that put the allowed pieces together wrongly.
_BROKEN = (
    pickle.UnpicklingError,
    EOFError,
    AttributeError,
    ImportError,
    IndexError,
    KeyError,
    MemoryError,
    OverflowError,
    TypeError,
    ValueError,
)


def read_plain_pickle(path: Path) -> Any:
    """The content of a pickle that holds plain data; any other is refused."""
    with path.open("rb") as stream:
        try:
            # Text of Python 2 may be image rows: as bytes it comes through unchanged.
            return PlainUnpickler(stream, encoding="bytes").load()
        except Refused as error:
            raise UserError(
                f"{path} is refused: it asks for {error}, which no CIFAR file needs and which may run code; "
                "get the official file."
            ) from None
        except _BROKEN as error:
            kind = type(error).__name__
            raise UserError(f"{path} is damaged ({kind}: {error}): get the official file again.") from None
