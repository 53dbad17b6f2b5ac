"""Sources of data sets: registered names, .npz files and folders."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

from semco.config import DataConfig
from semco.data.bundled import read_fashion_mini, read_fruit_mini
from semco.data.cifar import read_cifar10, read_cifar100
from semco.data.datasets import Dataset, ProgressCallback
from semco.data.folder import read_folder
from semco.data.npz import read_npz
from semco.errors import UserError, nearest
from semco.files import exists, expand_home

Reader = Callable[[DataConfig, ProgressCallback | None], Dataset]

REGISTERED: Mapping[str, Reader] = MappingProxyType(
    {
        "fashion-mini": read_fashion_mini,
        "fruit-mini": read_fruit_mini,
        "cifar10": read_cifar10,
        "cifar100": read_cifar100,
    }
)


def load(config: DataConfig, on_progress: ProgressCallback | None = None) -> Dataset:
    """Read the data set that ``config.source`` names, with the configured classes and image size."""
    dataset = _choose_reader(config.source)(config, on_progress)
    if config.classes is not None:
        dataset = dataset.with_classes(config.classes)
    return dataset if config.image_size is None else dataset.resized(config.image_size)


def source_exists(source: str) -> bool:
    """Return whether a source is a registered name, or a file or folder that exists."""
    return source in REGISTERED or exists(expand_home(Path(source)))


def _choose_reader(source: str) -> Reader:
    if source in REGISTERED:
        return REGISTERED[source]
    path = expand_home(Path(source))
    if path.suffix.lower() == ".npz":
        return lambda _config, _on_progress: read_npz(path)
    if exists(path) and path.is_dir():
        return lambda config, on_progress: read_folder(path, config, on_progress)
    if exists(path):
        raise UserError(f"{source!r} is neither a folder of class folders nor an .npz file.")
    raise UserError(
        f"there is no data set, file or folder {source!r}{nearest(source, REGISTERED) or '.'} "
        f"Known data sets: {', '.join(REGISTERED)}."
    )
