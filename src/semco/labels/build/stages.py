"""Results of finished stages on disk, so that a build that was interrupted resumes where it stopped."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from semco.download import Report
from semco.files import ZIP_ERRORS, atomic_path, open_regular

Arrays = Mapping[str, NDArray[Any]]


class Stages:
    """Arrays of finished stages, each in a file named after the stage's inputs and settings."""

    def __init__(self, folder: Path, report: Report) -> None:
        self.folder = folder
        self.report = report

    def load_or_compute(self, name: str, inputs: list[Path], settings: Any, compute: Callable[[], Arrays]) -> Arrays:
        """Return the stage's arrays, read from disk if the same inputs and settings produced them before.

        A stored file that is damaged is computed again.
        """
        path = self.folder / f"{name}-{fingerprint(inputs, settings)}.npz"
        if path.is_file():
            # The file is opened here, because NumPy does not close a damaged one.
            damage = suppress(*ZIP_ERRORS, ValueError, RuntimeError, LookupError)
            with damage, open_regular(path) as stream, np.load(stream) as stored:
                return dict(stored)
        arrays = compute()
        with atomic_path(path) as temporary, temporary.open("wb") as stream:
            np.savez(stream, allow_pickle=False, **arrays)
        return arrays

    def remove(self) -> None:
        """Delete all stored stages."""
        shutil.rmtree(self.folder, ignore_errors=True)


def fingerprint(inputs: list[Path], settings: Any) -> str:
    """Return a hash of the settings and of the files' names, sizes and modification times.

    The content of the files is left out: reading gigabytes would take longer than any stage.
    """
    stats = [(path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in inputs if path.is_file()]
    return hashlib.sha256(json.dumps([stats, settings], sort_keys=True).encode()).hexdigest()[:16]


def pack_terms(terms: list[str]) -> NDArray[np.uint8]:
    """Return terms as one array of bytes."""
    return np.frombuffer("\n".join(terms).encode(errors="surrogatepass"), dtype=np.uint8)


def unpack_terms(packed: NDArray[np.uint8]) -> list[str]:
    """Return the terms that `pack_terms` packed."""
    return packed.tobytes().decode(errors="surrogatepass").split("\n")
