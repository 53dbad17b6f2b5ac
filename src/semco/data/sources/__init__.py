"""Sources of data sets: registered names, .npz files and folders in many layouts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

from semco.config import REGISTERED_DATASETS, DataConfig
from semco.data.datasets import Dataset, ProgressCallback
from semco.data.listing import Listing
from semco.data.pixels import read_listing
from semco.data.sources.bundled import read_fashion_mini, read_fruit_mini
from semco.data.sources.cifar import read_cifar10, read_cifar100
from semco.data.sources.cub200 import find_attributes, find_official, list_official
from semco.data.sources.domainnet import list_real
from semco.data.sources.fashion_mnist import read_fashion_mnist
from semco.data.sources.layouts import add_unlabelled, list_images
from semco.data.sources.mini_imagenet import list_mini_imagenet
from semco.data.sources.npz import read_npz
from semco.errors import UserError, nearest
from semco.files import exists, expand_home, nearest_path

Reader = Callable[[DataConfig, ProgressCallback | None], Dataset]
Lister = Callable[[Path, Sequence[str] | None], Listing]

# Registered data sets that consist of image files.
LISTED: Mapping[str, Lister] = MappingProxyType(
    {
        "mini-imagenet": list_mini_imagenet,
        "cub200": lambda root, classes: list_official(find_official(root), classes),
        "domainnet-real": list_real,
    }
)


def _read_listed(name: str) -> Reader:
    def read(config: DataConfig, on_progress: ProgressCallback | None) -> Dataset:
        listing = list_source(config)
        assert listing is not None
        mean, std = REGISTERED_DATASETS[name].mean, REGISTERED_DATASETS[name].std
        dataset = read_listing(name, listing, config, on_progress)
        return replace(dataset, normalisation=(mean, std) if mean and std else None)

    return read


REGISTERED: Mapping[str, Reader] = MappingProxyType(
    {
        "fashion-mini": read_fashion_mini,
        "fruit-mini": read_fruit_mini,
        "fashion-mnist": read_fashion_mnist,
        "cifar10": read_cifar10,
        "cifar100": read_cifar100,
        **{name: _read_listed(name) for name in LISTED},
    }
)


def load(config: DataConfig, on_progress: ProgressCallback | None = None) -> Dataset:
    """Read the data set that ``config.source`` names, with the configured classes and image size."""
    _check_fields(config)
    dataset = _choose_reader(config.source)(config, on_progress)
    if config.classes is not None and dataset.train_paths is None:  # listings have only the configured classes
        dataset = dataset.with_classes(config.classes)
    return dataset if config.image_size is None else dataset.resized(config.image_size)


def _check_fields(config: DataConfig) -> None:
    """Refuse fields that a source would ignore."""
    is_folder = config.source not in REGISTERED and not config.source.lower().endswith(".npz")
    if config.labels_from is not None and not is_folder:
        raise UserError(f"data.labels_from is for folders of images, and {config.source} has labels of its own.")
    if config.unlabeled is not None and not is_folder and config.source not in LISTED:
        raise UserError(f"data.unlabeled is for image files, and {config.source} has arrays: leave it out.")


def list_source(config: DataConfig) -> Listing | None:
    """Return the images of a source without decoding them; None if it does not consist of image files."""
    if config.source in LISTED:
        if config.root is None:
            needed = REGISTERED_DATASETS[config.source].layout
            raise UserError(f"set data.root to the folder of {config.source}; it contains {needed}.")
        listing = LISTED[config.source](expand_home(config.root), config.classes)
        if config.unlabeled is not None:
            add_unlabelled(listing.train, expand_home(config.unlabeled))
        return listing
    path = expand_home(Path(config.source))
    if config.source in REGISTERED or not exists(path) or not path.is_dir():
        return None
    return list_images(path, config)


def class_attributes(config: DataConfig) -> Path | None:
    """Return the table of class attributes that is beside the images of a source, None if there is none."""
    if config.source in REGISTERED and config.source != "cub200":
        return None
    root = config.root if config.source == "cub200" else Path(config.source)
    folders = () if root is None else (expand_home(root), expand_home(root) / "CUB_200_2011")
    return next((found for folder in folders if (found := find_attributes(folder)) is not None), None)


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
        return lambda config, on_progress: read_listing(str(path), list_images(path, config), config, on_progress)
    if exists(path):
        raise UserError(f"{source!r} is neither a folder of images nor an .npz file.")
    raise no_such_source(source)


def no_such_source(source: str) -> UserError:
    """Return the error for a source that is neither a registered name nor a path that exists."""
    similar = nearest(source, REGISTERED) or nearest_path(expand_home(Path(source)))
    return UserError(
        f"there is no data set, file or folder {source!r}{similar or '.'} Known data sets: {', '.join(REGISTERED)}."
    )
