"""The registered data sets as rows of text."""

from __future__ import annotations

from pathlib import Path

from semco.config import REGISTERED_DATASETS
from semco.config.datasets import RegisteredDataset
from semco.data.sources.fetch import is_present


def describe_datasets(root: Path) -> list[dict[str, str]]:
    """Return what there is to know of each registered data set; ``root`` is where its files may be."""
    return [_describe(name, dataset, root) for name, dataset in REGISTERED_DATASETS.items()]


def _describe(name: str, dataset: RegisteredDataset, root: Path) -> dict[str, str]:
    return {
        "data set": name,
        "title": dataset.title,
        "classes": f"{dataset.classes}",
        "training": f"{dataset.train_images:,}",
        "test": f"{dataset.test_images:,}",
        "pixels": f"{dataset.image_size}",
        "there": "bundled" if dataset.is_bundled else "yes" if is_present(name, root) else "no",
        "backbone": dataset.backbone or ("pretrained" if dataset.is_photos else "wrn-28-2"),
        "layout": "nothing, it is part of the package" if dataset.is_bundled else dataset.layout,
        "fetch": "yes" if dataset.files else "",
        "licence": dataset.licence,
    }
