"""Registered data sets: which are there, and the download of their files, complete or not at all."""

from __future__ import annotations

import shutil
import tarfile
import tempfile
import zipfile
from pathlib import Path

from semco.config import REGISTERED_DATASETS
from semco.config.datasets import RegisteredDataset
from semco.data.sources.cub200 import is_official
from semco.data.sources.mini_imagenet import folder_in
from semco.download import Report, download, no_report
from semco.errors import UserError, unknown
from semco.files import ZIP_ERRORS, cannot_write, exists, open_regular, open_zip, remove_leftover_folders

# What an archive unpacks to. It is renamed to its place when it is complete.
UNPACKED = {
    "cifar-10-python.tar.gz": "cifar-10-batches-py",
    "cifar-100-python.tar.gz": "cifar-100-python",
    "CUB_200_2011.tgz": "CUB_200_2011",
    "real.zip": "real",
}
# A file or folder that shows that a data set is there, below its data.root.
MARKERS = {
    "fashion-mnist": ("train-images-idx3-ubyte.gz", "train-images-idx3-ubyte"),
    "cifar10": ("cifar-10-batches-py/batches.meta", "batches.meta"),
    "cifar100": ("cifar-100-python/meta", "meta"),
    "mini-imagenet": ("train", "train.csv", "images", "n01532829", "house finch"),
    "domainnet-real": ("real_train.txt",),
}


def is_present(name: str, root: Path) -> bool:
    """Return whether the files of a data set seem to be in a folder."""
    if REGISTERED_DATASETS[name].is_bundled:
        return True
    if name == "cub200":
        return is_official(root) or is_official(root / "CUB_200_2011")
    folder = folder_in(root) if name == "mini-imagenet" else root
    return folder != root or any(exists(folder / marker) for marker in MARKERS[name])


def fetch_dataset(name: str, to: Path, report: Report = no_report, pause: float = 1.0) -> Path:
    """Download and unpack a data set into the folder ``to``, and return the folder; what is there is not fetched."""
    if name not in REGISTERED_DATASETS:
        raise unknown("data set", name, REGISTERED_DATASETS)
    dataset = REGISTERED_DATASETS[name]
    if dataset.is_bundled:
        raise UserError(f"{name} is part of the package; there is nothing to fetch.")
    if not dataset.files:
        raise UserError(f"{name} cannot be downloaded here ({dataset.licence}); put there: {dataset.layout}.")
    for source in dataset.files:
        if source.file not in UNPACKED:
            download(source, to, report, pause)
        elif not exists(to / UNPACKED[source.file]):
            file = download(source, to, report, pause)
            unpack(file, to, report)
            file.unlink()
    return to


def unpack(archive: Path, to: Path, report: Report = no_report) -> None:
    """Unpack a .zip or compressed .tar file into a folder; one that is damaged leaves nothing there."""
    remove_leftover_folders(archive)
    try:
        temporary = Path(tempfile.mkdtemp(prefix=f".{archive.name}.", suffix=".part", dir=to))
    except OSError as error:
        raise cannot_write(to, error) from None
    try:
        if archive.suffix == ".zip":
            _unpack_zip(archive, temporary, report)
        else:
            _unpack_tar(archive, temporary, report)
        _move_content(temporary, to)
    except (tarfile.TarError, EOFError, ValueError, LookupError, RuntimeError, *ZIP_ERRORS) as error:
        if isinstance(error, UserError):
            raise
        raise UserError(f"{archive} cannot be unpacked ({error}): remove it and fetch it again.") from None
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _unpack_tar(archive: Path, folder: Path, report: Report) -> None:
    with open_regular(archive) as stream, tarfile.open(fileobj=stream) as content:
        total = archive.stat().st_size
        for member in content:
            content.extract(member, folder, filter="data")  # which refuses names and links that lead out of the folder
            report(f"unpacking {archive.name}", min(stream.tell(), total), total)


def _unpack_zip(archive: Path, folder: Path, report: Report) -> None:
    with open_regular(archive) as stream, open_zip(stream) as content:
        members = content.infolist()
        for done, member in enumerate(members, 1):
            place = (folder / member.filename).resolve()
            if not place.is_relative_to(folder.resolve()):
                raise zipfile.BadZipFile(f"{member.filename!r} leads out of the folder")
            content.extract(member, folder)
            report(f"unpacking {archive.name}", done, len(members))


def _move_content(folder: Path, to: Path) -> None:
    """Move what is in a folder to another one; what is there already is kept."""
    for path in sorted(folder.iterdir()):
        if not exists(to / path.name):
            path.rename(to / path.name)


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
