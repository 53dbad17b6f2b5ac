"""A vector store: terms and their vectors on disk, opened in milliseconds.

A store is a folder: ``vectors.npy`` (n x d; float16, or int8 with a scale per row), ``terms.bin`` (the sorted terms in
UTF-8 without separators), ``offsets.npy`` (n + 1 positions in it), ``ranks.npy`` (n frequency ranks) and
``header.json`` with a checksum (CRC-32) of each file and of itself, compared when a store is opened. Arrays are
memory-mapped and terms are found by binary search, so only the data that is used is read.

Shapes: n terms, d embedding size.
"""

from __future__ import annotations

import heapq
import json
import mmap
import zlib
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from semco.data.npy import read_npy_header
from semco.errors import UserError, made_earlier
from semco.files import atomic_folder, exists, open_regular, read_json_object

FORMAT = 1
TYPES = {
    "vectors.npy": ("float16", "int8"),
    "offsets.npy": ("uint32",),
    "ranks.npy": ("int32",),
}
FILES = ("vectors.npy", "offsets.npy", "ranks.npy", "terms.bin")
CHECKSUMS = "crc32"  # the key of the checksums in the header
CHUNK = 2**20  # bytes that are read at a time


def damaged(folder: Path, why: str) -> UserError:
    """Return the error for a store whose files are not as they were written."""
    return UserError(f"the vector store {folder} is damaged ({why}); build or copy it again.")


def read_header(folder: Path) -> dict[str, Any]:
    """Return the header of a store, after checking its values, and the sizes and checksums of the files."""
    path = folder / "header.json"
    if not exists(path):
        raise UserError(f"{folder} is not a vector store (no header.json); run `semco labels build`.")
    header = read_json_object(path)
    if header.get("format") != FORMAT:
        raise made_earlier(folder, "build it again")
    _check_header(folder, header)
    if not all(type(header.get(key)) is int and header[key] > 0 for key in ("size", "dim")):
        raise damaged(folder, "the header lacks the sizes")
    eps = header.get("default_eps", 1.0)
    if isinstance(eps, bool) or not isinstance(eps, int | float) or not 0 <= eps <= 2:
        raise damaged(folder, f"the default_eps {str(eps)[:40]!r} of the header is not a number from 0 to 2")
    sizes = header.get("files")
    for name in FILES:
        expected = sizes.get(name) if isinstance(sizes, dict) else None
        found = (folder / name).stat().st_size if (folder / name).is_file() else None
        if found is None or found != expected:
            raise damaged(folder, f"{name} has {found} bytes instead of {expected}")
        if _file_checksum(folder / name) != header[CHECKSUMS][name]:
            raise damaged(folder, f"{name} does not have its checksum")
    return header


def _check_header(folder: Path, header: Mapping[str, Any]) -> None:
    sums = header.get(CHECKSUMS)
    if not isinstance(sums, dict) or not all(isinstance(sums.get(name), str) for name in ("header.json", *FILES)):
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


def with_checksums(folder: Path, header: Mapping[str, Any]) -> dict[str, Any]:
    """Return the header of a store with the checksums of the files in ``folder``."""
    result: dict[str, Any] = json.loads(json.dumps({**header, "format": FORMAT}))  # as it will be read
    result[CHECKSUMS] = {name: _file_checksum(folder / name) for name in FILES}
    result[CHECKSUMS]["header.json"] = _header_checksum(result)
    return result


def _header_checksum(header: Mapping[str, Any]) -> str:
    """Return the checksum of a header's values, except that of the header itself."""
    sums = {name: value for name, value in header[CHECKSUMS].items() if name != "header.json"}
    return f"{zlib.crc32(json.dumps({**header, CHECKSUMS: sums}, sort_keys=True).encode()):08x}"


def _file_checksum(path: Path) -> str:
    total = 0
    with open_regular(path) as stream:
        while chunk := stream.read(CHUNK):
            total = zlib.crc32(chunk, total)
    return f"{total:08x}"


DEFAULT_EPS = 0.2  # the value of the paper, for a store without its own
_CHUNK = 65_536
_REMEMBERED = 4096  # answers of `nearest`
Float = TypeVar("Float", np.float32, np.float64)


class VectorStore:
    """Sorted terms with their L2-normalised vectors and frequency ranks, memory-mapped and read-only."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.header = read_header(folder)
        self.size: int = self.header["size"]
        self.dim: int = self.header["dim"]
        self.default_eps = float(self.header.get("default_eps", DEFAULT_EPS))
        self._vectors = open_array(folder, "vectors.npy", (self.size, self.dim))
        offsets = open_array(folder, "offsets.npy", (self.size + 1,))
        self._ranks = open_array(folder, "ranks.npy", (self.size,))
        self._blob = open_terms(folder, offsets)
        self._offsets = memoryview(offsets)  # type: ignore[arg-type]  # indexing it is ten times faster
        self._terms: list[str] | None = None
        self._nearest: dict[tuple[bytes, int], list[tuple[str, float]]] = {}  # what `nearest` has found

    @classmethod
    def open(cls, folder: Path) -> VectorStore:
        """Open a store; a folder without a store, another format or a damaged file is a `UserError`."""
        return cls(Path(folder))

    @classmethod
    def write(
        cls,
        folder: Path,
        terms: Sequence[str],
        matrix: NDArray[np.floating[Any]],
        ranks: ArrayLike,
        header: Mapping[str, Any],
        compact: bool = False,
    ) -> None:
        """Write a store of unique ``terms`` (n), ``matrix`` (n, d) and ``ranks`` (n); it appears as a whole.

        ``header`` is stored unchanged (sources, relations, default_eps, ...) with format and sizes added. ``compact``
        stores one byte per number: half the size, with an error of about 0.003 in the cosines.
        """
        folder = Path(folder)
        assert len(set(terms)) == len(terms) == len(matrix) > 0, "unique terms, one per row"
        check_replaceable(folder)
        with atomic_folder(folder) as temporary:
            _write_files(temporary, terms, matrix, np.asarray(ranks), header, compact)

    def __len__(self) -> int:
        return self.size

    def __contains__(self, term: str) -> bool:
        return self.index(term) is not None

    def index(self, term: str) -> int | None:
        """Return the position of a term in sorted order, or None."""
        wanted = term.encode("utf-8", errors="surrogatepass")
        position = bisect_left(range(self.size), wanted, key=self._encoded)
        return position if position < self.size and self._encoded(position) == wanted else None

    def vector(self, term: str) -> NDArray[np.float32]:
        """Return the unit vector (d,) of a term."""
        row: NDArray[np.float32] = self.vectors([term])[0]
        return row

    def vectors(self, terms: Sequence[str]) -> NDArray[np.float32]:
        """Return the unit vectors (m, d) of m terms; a term that is not in the store is a `UserError`."""
        positions = []
        for term in terms:
            position = self.index(term)
            if position is None:
                raise UserError(f"{term!r} is not in the vector store {self.folder}; try `semco labels lookup`.")
            positions.append(position)
        return self._rows(np.asarray(positions, dtype=np.intp))

    def rank(self, i: int) -> int:
        """Return the frequency rank of the i-th term, 0 for the most frequent."""
        return int(self._ranks[i])

    def terms(self) -> Sequence[str]:
        """Return all terms in sorted order; they are decoded at the first call."""
        if self._terms is None:
            text, ends = self._blob[:], self._offsets.tolist()
            self._terms = [self._decode(text[a:b]) for a, b in pairwise(ends)]
        return self._terms

    def term(self, i: int) -> str:
        """Return the i-th term in sorted order."""
        return self._decode(self._encoded(i))

    def nearest(self, vector: NDArray[np.floating[Any]], n: int = 10) -> list[tuple[str, float]]:
        """Return the ``n`` terms with the largest cosine to ``vector`` (d,), best first; ties by frequency."""
        wanted = unit_rows(np.asarray(vector, dtype=np.float32)[None])[0]
        key = (wanted.tobytes(), n)
        found = self._nearest.get(key)  # every change of the Studio's classes asks for all of them again
        if found is None:
            if len(self._nearest) >= _REMEMBERED:
                self._nearest.clear()
            found = self._nearest[key] = self._find_nearest(wanted, n)
        return list(found)

    def _find_nearest(self, wanted: NDArray[np.float32], n: int) -> list[tuple[str, float]]:
        best: list[tuple[float, int, int]] = []
        for start in range(0, self.size, _CHUNK):
            cosines = self._rows(slice(start, start + _CHUNK)) @ wanted
            top = np.argpartition(-cosines, min(n, len(cosines)) - 1)[:n].tolist()
            found = [(float(cosines[i]), -self.rank(start + i), start + i) for i in top]
            best = heapq.nlargest(n, best + found)
        return [(self.term(i), cosine) for cosine, _, i in best]

    def _rows(self, positions: NDArray[np.intp] | slice) -> NDArray[np.float32]:
        """Return the rows (m, d) at these positions, with unit length."""
        rows: NDArray[np.float32] = self._vectors[positions].astype(np.float32)
        if not np.isfinite(rows).all():
            raise damaged(self.folder, "vectors.npy contains numbers that are not finite")
        return unit_rows(rows)

    def _encoded(self, i: int) -> bytes:
        return self._blob[self._offsets[i] : self._offsets[i + 1]]

    def _decode(self, term: bytes) -> str:
        try:
            return term.decode()
        except UnicodeDecodeError:
            raise damaged(self.folder, f"terms.bin contains {term[:40]!r}, which is not UTF-8") from None


@cache
def bundled_store() -> VectorStore:
    """Return the store that comes with the package (``bundled/PROVENANCE.md``)."""
    return VectorStore.open(Path(__file__).parent / "bundled")


@cache
def plain_store() -> VectorStore:
    """Return the store of the paper's build that comes with the package (``plain/PROVENANCE.md``)."""
    return VectorStore.open(Path(__file__).parent / "plain")


def unit_rows(matrix: NDArray[Float]) -> NDArray[Float]:
    """Return the rows (n, d) L2-normalised; zero rows stay zero."""
    lengths = np.linalg.norm(matrix, axis=1, keepdims=True)
    unit: NDArray[Float] = np.divide(matrix, lengths, out=np.zeros_like(matrix), where=lengths > 0)
    return unit


def check_replaceable(folder: Path) -> None:
    """Raise a `UserError` if a folder exists that is neither empty nor a store."""
    is_store = (folder / "header.json").is_file()
    if folder.exists() and not is_store and (not folder.is_dir() or any(folder.iterdir())):
        raise UserError(f"{folder} exists and is not a vector store; choose a new folder.")


def _write_files(
    folder: Path,
    terms: Sequence[str],
    matrix: NDArray[np.floating[Any]],
    ranks: NDArray[Any],
    header: Mapping[str, Any],
    compact: bool,
) -> None:
    encoded = [term.encode() for term in terms]
    order = np.asarray(sorted(range(len(encoded)), key=encoded.__getitem__), dtype=np.int64)
    lengths = [len(encoded[i]) for i in order]
    (folder / "terms.bin").write_bytes(b"".join(encoded[i] for i in order))
    np.save(folder / "offsets.npy", np.concatenate([[0], np.cumsum(lengths)]).astype(np.uint32))
    np.save(folder / "ranks.npy", ranks[order].astype(np.int32))
    dtype = np.int8 if compact else np.float16
    vectors = np.lib.format.open_memmap(folder / "vectors.npy", "w+", dtype, matrix.shape)
    for start in range(0, len(order), _CHUNK):
        rows = unit_rows(np.asarray(matrix[order[start : start + _CHUNK]], dtype=np.float32))
        vectors[start : start + _CHUNK] = _scale_to_int8(rows) if compact else rows
    vectors.flush()
    files = {name: (folder / name).stat().st_size for name in FILES}
    sizes = {"size": len(order), "dim": matrix.shape[1], "files": files}
    text = json.dumps(with_checksums(folder, {**header, **sizes}), indent=2, ensure_ascii=False)
    (folder / "header.json").write_text(text + "\n", encoding="utf-8")


def _scale_to_int8(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the rows scaled to integers from -127 to 127; rows are normalised when they are read."""
    largest = np.abs(rows).max(axis=1, keepdims=True)
    whole: NDArray[np.float32] = np.rint(np.divide(127 * rows, largest, out=np.zeros_like(rows), where=largest > 0))
    return whole
