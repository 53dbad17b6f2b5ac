"""Data sets that are part of the package."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from semco.config import DataConfig
from semco.data.datasets import Dataset, ProgressCallback
from semco.data.folder import read_folder
from semco.data.sources.npz import read_npz

FILES = Path(__file__).parents[1] / "bundled_files"
FRUIT_SIZE = 160  # pixels of the shorter side of a photo


def read_fashion_mini(
    config: DataConfig,  # noqa: ARG001 (every reader takes these two arguments)
    on_progress: ProgressCallback | None = None,  # noqa: ARG001
) -> Dataset:
    """Read 6,000 training and 1,000 test images of Fashion-MNIST (Xiao et al. 2017), 28 x 28 grey.

    See bundled_files/README.md.
    """
    return read_npz(FILES / "fashion_mini.npz", name="fashion-mini")


def fruit_photos() -> Path:
    """Return the folder of the 420 training photos of fruit."""
    return FILES / "fruit_mini" / "train"


def read_fruit_mini(config: DataConfig, on_progress: ProgressCallback | None = None) -> Dataset:
    """Read 420 training and 196 test photos of 14 kinds of fruit (Klasson et al. 2019), 160 x 160 unless configured.

    See bundled_files/README.md.
    """
    sized = config.model_copy(update={"image_size": config.image_size or FRUIT_SIZE})
    return replace(read_folder(FILES / "fruit_mini", sized, on_progress), name="fruit-mini")
