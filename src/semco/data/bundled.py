"""Data sets that are part of the package."""

from __future__ import annotations

from pathlib import Path

from semco.config import DataConfig
from semco.data.datasets import Dataset, ProgressCallback
from semco.data.npz import read_npz

FILES = Path(__file__).parent / "bundled_files"


def read_fashion_mini(
    config: DataConfig,  # noqa: ARG001 (every reader takes these two arguments)
    on_progress: ProgressCallback | None = None,  # noqa: ARG001
) -> Dataset:
    """Read 6,000 training and 1,000 test images of Fashion-MNIST (Xiao et al. 2017), 28 x 28 grey.

    See bundled_files/README.md.
    """
    return read_npz(FILES / "fashion_mini.npz", name="fashion-mini")
