"""Data sets that come with the package."""

from __future__ import annotations

from pathlib import Path

from semco.config import DataConfig
from semco.data.datasets import Dataset, ProgressCallback
from semco.data.npz import read_npz

FILES = Path(__file__).parent / "bundled_files"


def read_fashion_mini(config: DataConfig, report: ProgressCallback | None = None) -> Dataset:  # noqa: ARG001 (reader)
    """6,000 + 1,000 images of Fashion-MNIST (Xiao et al. 2017), 28 x 28 grey; see bundled_files/README.md."""
    return read_npz(FILES / "fashion_mini.npz", name="fashion-mini")
