"""The files of a vector store and their checks: sizes, array headers and checksums (CRC-32).

``header.json`` contains the checksums: of itself, of each small file, of the .npy header of the vectors and of each
page of their rows. A page is compared when one of its rows is first read, because reading all vectors would make
opening slow; the others are compared when a store is opened. Stores of version 1 have no checksums.
"""

from __future__ import annotations

import json
import math
import mmap
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from semco.data.npy import read_npy_header
from semco.errors import UserError
from semco.files import exists, open_regular, read_json_object
from semco.labels.kin import Kin

VERSION = 2
TYPES = {
    "vectors.npy": ("float16", "int8"),
    "offsets.npy": ("uint32",),
    "ranks.npy": ("int32",),
    "kin.npy": ("int32",),
    "kin_offsets.npy": ("uint32",),
    "children.npy": ("int32",),
}
KIN_FILES = ("kin.npy", "kin_offsets.npy", "children.npy")  # stores that were built without a graph lack them
FILES = ("vectors.npy", "offsets.npy", "ranks.npy", "terms.bin")
NPY_HEADER = "vectors.npy (header)"
CHECKSUMS = "crc32"  # the key of the checksums in the header
PAGE = 1024  # rows


def damaged(folder: Path, why: str) -> UserError:
    """Return the error for a store whose files are not as they were written."""
    return UserError(f"the vector store {folder} is damaged ({why}); build or copy it again.")


def read_header(folder: Path) -> dict[str, Any]:
    """Return the header of a store, after checking its values and the sizes of the files."""
    path = folder / "header.json"
    if not exists(path):
        raise UserError(f"{folder} is not a vector store (no header.json); run `semco labels build`.")
    header = read_json_object(path)
    if header.get("version") not in (1, VERSION):
        raise UserError(
            f"{folder} is a vector store of version {header.get('version')}, not {VERSION}; build it again."
        )
    if header["version"] == VERSION or CHECKSUMS in header:
        _check_header(folder, header)
    if not all(type(header.get(key)) is int and header[key] > 0 for key in ("size", "dim")):
        raise damaged(folder, "the header lacks the sizes")
    eps = header.get("default_eps", 1.0)
    if isinstance(eps, bool) or not isinstance(eps, int | float) or not 0 <= eps <= 2:
        raise damaged(folder, f"the default_eps {str(eps)[:40]!r} of the header is not a number from 0 to 2")
    sizes = header.get("files")
    for name in files_of(header):
        expected = sizes.get(name) if isinstance(sizes, dict) else None
        found = (folder / name).stat().st_size if (folder / name).is_file() else None
        if found is None or found != expected:
            raise damaged(folder, f"{name} has {found} bytes instead of {expected}")
    return header


def files_of(header: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names of a store's files: with those of the kin, if its header lists one of them."""
    has_kin = isinstance(header.get("files"), dict) and any(name in header["files"] for name in KIN_FILES)
    return (*FILES, *KIN_FILES) if has_kin else FILES


def _check_header(folder: Path, header: Mapping[str, Any]) -> None:
    sums = header.get(CHECKSUMS)
    if not isinstance(sums, dict) or not all(
        isinstance(sums.get(name), str) for name in ("header.json", *files_of(header))
    ):
        raise damaged(folder, "the header lacks the checksums")
    if sums["header.json"] != _header_checksum(header):
        raise damaged(folder, "header.json does not have its checksum")


def open_array(folder: Path, name: str, shape: tuple[int, ...]) -> NDArray[Any]:
    """Return an array of a store, memory-mapped, after checking its type and shape."""
    path = folder / name
    with open_regular(path) as stream:
        try:
            header = read_npy_header(stream, path.stat().st_size)
        except ValueError as error:
            raise damaged(folder, f"{name}: {error}") from None
        if header.shape != shape or header.order != "C" or header.dtype.name not in TYPES[name]:
            raise damaged(folder, f"{name} contains {header.dtype} of shape {header.shape}, and not {shape}")
        return np.memmap(stream, header.dtype, "r", header.start, shape)


def open_terms(folder: Path, offsets: NDArray[np.uint32]) -> mmap.mmap:
    """Return the bytes of all terms, after checking that the ``offsets`` (n + 1,) divide them."""
    with open_regular(folder / "terms.bin") as stream:
        try:
            content = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
        except (OSError, ValueError) as error:  # an empty file cannot be mapped
            raise damaged(folder, f"terms.bin: {error}") from None
    if offsets[0] != 0 or offsets[-1] != len(content) or (offsets[1:] < offsets[:-1]).any():
        raise damaged(folder, "offsets.npy does not divide terms.bin into terms")
    return content


def open_kin(folder: Path, header: Mapping[str, Any]) -> Kin | None:
    """Return the kin of a store's terms, after checking that its positions exist, or None if it has none."""
    if KIN_FILES[0] not in files_of(header):
        return None
    size = header["size"]
    offsets = open_array(folder, "kin_offsets.npy", (size + 1,))
    children = open_array(folder, "children.npy", (size,))
    if offsets[0] != 0 or (offsets[1:] < offsets[:-1]).any():
        raise damaged(folder, "kin_offsets.npy does not divide kin.npy into terms")
    positions = open_array(folder, "kin.npy", (int(offsets[-1]),))
    if len(positions) and not 0 <= int(positions.min()) <= int(positions.max()) < size:
        raise damaged(folder, "kin.npy contains positions that do not exist")
    return Kin(positions, offsets, children)


def check_small_files(folder: Path, vectors: NDArray[Any], header: Mapping[str, Any]) -> None:
    """Compare the small files with their checksums; a store of version 1 has none."""
    for name, found in _small_checksums(folder, vectors, header).items() if CHECKSUMS in header else ():
        if found != header[CHECKSUMS].get(name):
            raise damaged(folder, f"{name} does not have its checksum")


def _small_checksums(folder: Path, vectors: NDArray[Any], header: Mapping[str, Any]) -> dict[str, str]:
    small = [name for name in files_of(header) if name != "vectors.npy"]
    lengths = {NPY_HEADER: (folder / "vectors.npy").stat().st_size - vectors.nbytes} | dict.fromkeys(small, -1)
    sums = {}
    for name, length in lengths.items():
        with open_regular(folder / name.removesuffix(" (header)")) as stream:
            sums[name] = _crc32(stream.read(length))
    return sums


class CheckedVectors:
    """The vectors (n, d) of a store; each page is compared with its checksum before its rows are returned."""

    def __init__(self, folder: Path, vectors: NDArray[Any], header: Mapping[str, Any]) -> None:
        self._folder, self._vectors = folder, vectors
        self._expected: str | None = header[CHECKSUMS]["vectors.npy"] if CHECKSUMS in header else None
        self._is_checked = np.full(math.ceil(len(vectors) / PAGE), self._expected is None)

    def rows(self, positions: NDArray[np.intp] | slice) -> NDArray[np.float32]:
        """Return the rows (m, d) at these positions."""
        if isinstance(positions, slice):
            pages = np.arange(positions.start // PAGE, math.ceil(min(positions.stop, len(self._vectors)) / PAGE))
        else:
            pages = np.unique(positions // PAGE)
        for page in pages[~self._is_checked[pages]].tolist():
            self._check(page)
        rows: NDArray[np.float32] = self._vectors[positions].astype(np.float32)
        if not np.isfinite(rows).all():
            raise damaged(self._folder, "vectors.npy contains numbers that are not finite")
        return rows

    def _check(self, page: int) -> None:
        expected = (self._expected or "")[8 * page : 8 * page + 8]
        if _page_checksum(self._vectors, page) != expected:
            first = page * PAGE
            raise damaged(self._folder, f"vectors.npy, rows {first} to {first + PAGE - 1}, does not have its checksum")
        self._is_checked[page] = True


def with_checksums(folder: Path, header: Mapping[str, Any]) -> dict[str, Any]:
    """Return the header of a store with the checksums of the files in ``folder``."""
    result: dict[str, Any] = json.loads(json.dumps({**header, "version": VERSION}))  # as it will be read
    vectors = open_array(folder, "vectors.npy", (result["size"], result["dim"]))
    pages = [_page_checksum(vectors, page) for page in range(math.ceil(len(vectors) / PAGE))]
    result[CHECKSUMS] = _small_checksums(folder, vectors, result) | {"vectors.npy": "".join(pages)}
    result[CHECKSUMS]["header.json"] = _header_checksum(result)
    return result


def _header_checksum(header: Mapping[str, Any]) -> str:
    """Return the checksum of a header's values, except that of the header itself."""
    sums = {name: value for name, value in header[CHECKSUMS].items() if name != "header.json"}
    return _crc32(json.dumps({**header, CHECKSUMS: sums}, sort_keys=True).encode())


def _page_checksum(vectors: NDArray[Any], page: int) -> str:
    return _crc32(vectors[page * PAGE : (page + 1) * PAGE].tobytes())


def _crc32(content: bytes) -> str:
    return f"{zlib.crc32(content):08x}"
