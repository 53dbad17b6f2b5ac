"""Data sets in one NumPy file: x_train, y_train, class_names and, if there is a test set, x_test and y_test."""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from semco.data.arrays import from_arrays
from semco.data.datasets import Dataset
from semco.errors import UserError, nearest

REQUIRED = ("x_train", "y_train", "class_names")
OPTIONAL = ("x_test", "y_test")


def read_npz(path: Path, name: str | None = None) -> Dataset:
    """Read the data set in an .npz file; pickled objects are refused."""
    if not path.is_file():
        raise UserError(f"there is no file {path}.")
    arrays = _read_arrays(path)
    names = arrays["class_names"]
    if names.ndim != 1 or names.dtype.kind not in "US":
        raise UserError(f"{path}: class_names must be a list of strings, not {names.dtype} {names.shape}.")
    return from_arrays(
        name or str(path),
        arrays["x_train"],
        arrays["y_train"],
        [n.decode() if isinstance(n, bytes) else n for n in names.tolist()],
        arrays.get("x_test"),
        arrays.get("y_test"),
    )


def _read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    try:
        # Opened here so that the file is closed even if NumPy finds it damaged.
        with path.open("rb") as stream:
            if not zipfile.is_zipfile(stream):
                raise UserError(f"{path} is not an .npz archive or is incomplete: write it with numpy.savez.")
            stream.seek(0)
            file = np.load(stream, allow_pickle=False)
            for key in REQUIRED:
                if key not in file.files:
                    hint = nearest(key, file.files)
                    raise UserError(f"{path} has no {key}{hint or '.'} It contains: {', '.join(file.files)}.")
            return {key: file[key] for key in (*REQUIRED, *OPTIONAL) if key in file.files}
    except UserError:
        raise
    except (OSError, EOFError, ValueError, zipfile.BadZipFile, zlib.error) as error:
        reason = "it contains Python objects" if "allow_pickle" in str(error) else str(error)
        raise UserError(f"{path} cannot be read as an .npz file of plain arrays: {reason}.") from None
