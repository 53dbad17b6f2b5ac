"""Data sets in one NumPy file: x_train, y_train, class_names and, if there is a test set, x_test and y_test."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any
from zipfile import ZipFile, ZipInfo

import numpy as np
from numpy.typing import NDArray

from semco.data.datasets import Dataset, from_arrays
from semco.data.npy import read_npy
from semco.errors import UserError, nearest
from semco.files import ZIP_ERRORS, exists, no_such, open_regular, open_zip, open_zip_member

REQUIRED = ("x_train", "y_train", "class_names")
OPTIONAL = ("x_test", "y_test")


def read_npz(path: Path, name: str | None = None) -> Dataset:
    """Read the data set in an .npz file; pickled objects are refused."""
    if not exists(path):
        raise no_such("file", path)
    arrays = _read_arrays(path)
    return from_arrays(
        name or str(path),
        arrays["x_train"],
        arrays["y_train"],
        _class_names(path, arrays["class_names"]),
        arrays.get("x_test"),
        arrays.get("y_test"),
    )


def _read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    try:
        with open_regular(path) as stream, open_zip(stream) as archive:
            members = {member.filename.removesuffix(".npy"): member for member in archive.infolist()}
            for key in REQUIRED:
                if key not in members:
                    hint = nearest(key, members)
                    raise UserError(f"{path} has no {key}{hint or '.'} It contains: {', '.join(members)}.")
            wanted = [key for key in (*REQUIRED, *OPTIONAL) if key in members]
            return {key: _read_array(path, archive, members[key]) for key in wanted}
    except ZIP_ERRORS as error:
        raise UserError(
            f"{path} is not an .npz archive, is incomplete or damaged ({error}): write it with numpy.savez."
        ) from None


def _read_array(path: Path, archive: ZipFile, member: ZipInfo) -> NDArray[Any]:
    with open_zip_member(archive, member) as stream:
        try:
            return read_npy(stream, member.file_size)
        except ValueError as error:
            raise UserError(
                f"{path}: {member.filename} cannot be read as a plain array: {error}; write it with numpy.savez."
            ) from None


def _class_names(path: Path, names: NDArray[Any]) -> list[str]:
    if names.ndim != 1 or names.dtype.kind not in "US":
        raise UserError(f"{path}: class_names must be a list of strings, not {names.dtype} {names.shape}.")
    if names.dtype.kind == "U":
        points = np.frombuffer(names.tobytes(), f"{names.dtype.str[0]}u4")  # NumPy does not check code points
        if points.size and points.max() > sys.maxunicode:
            raise _not_text(path, f"{points.max():#x} is not a character")
    try:
        return [n.decode() if isinstance(n, bytes) else n for n in names.tolist()]
    except UnicodeDecodeError as error:
        raise _not_text(path, str(error)) from None


def _not_text(path: Path, why: str) -> UserError:
    return UserError(f"{path}: class_names contains a name that is not valid text ({why}): correct it.")
