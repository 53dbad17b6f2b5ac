"""Which layout a folder of images has. The first that fits is used:

a file of labels (data.labels_from), tables of Hugging Face (metadata.csv, .jsonl), Arrow and Parquet files, WebDataset
shards, the official folder of CUB-200-2011, two list files (x_train.txt, x_test.txt), class folders.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from semco.config import DataConfig
from semco.data.folder import image_files, list_folder, subfolders
from semco.data.listing import Listing, Part
from semco.data.sources.cub200 import find_attributes, is_official, list_official
from semco.data.sources.domainnet import find_lists, list_lists
from semco.data.sources.label_file import add_labels_file, add_metadata, metadata_folders
from semco.data.sources.rows import ROLES, Rows, lines_of, path_inside
from semco.data.sources.shards import add_shard, find_shards, numbered_classes
from semco.data.sources.tables import add_table, find_tables, names_beside
from semco.errors import UserError
from semco.files import exists, expand_home


def list_images(root: Path, config: DataConfig) -> Listing:
    """List the images of a folder in any layout, and those of ``data.unlabeled``."""
    listing = _list_layout(root, config)
    if listing.attributes is None:
        listing = replace(listing, attributes=find_attributes(root))
    if config.unlabeled is not None:
        add_unlabelled(listing.train, expand_home(config.unlabeled))
    return listing


def _list_layout(root: Path, config: DataConfig) -> Listing:
    if config.labels_from is not None:
        return _from_labels_file(root, expand_home(config.labels_from), config)
    for read in (_from_metadata, _from_tables, _from_shards):
        rows = read(root)
        if rows is not None:
            return rows.listing(root, config.classes)
    official = next((f for f in (root, root / "CUB_200_2011") if is_official(f)), None)
    if official is not None:
        return list_official(official, config.classes)
    lists = find_lists(root)
    return list_folder(root, config.classes) if lists is None else list_lists(root, lists, config.classes)


def _from_labels_file(root: Path, file: Path, config: DataConfig) -> Listing:
    rows = Rows()
    add_labels_file(rows, root, file)
    listing = rows.listing(file, config.classes)
    unlabelled = sum(label < 0 for label in listing.train.labels)
    labelled = len(listing.train) - unlabelled - sum(listing.train.held_out)
    note = f"{labelled:,} labels from {file.name}; {unlabelled:,} images are unlabelled"
    return replace(listing, notes=(*listing.notes, note))


def _from_metadata(root: Path) -> Rows | None:
    folders = metadata_folders(root)
    rows = Rows()
    for folder in folders:
        add_metadata(rows, folder, "" if folder == root else folder.name)
    return rows if folders else None


def _from_tables(root: Path) -> Rows | None:
    is_saved = any(exists(root / name) for name in ("dataset_info.json", "dataset_dict.json", "state.json"))
    inner = [root, *(f for f in subfolders(root) if f.name.lower() in (*ROLES, "data", "default"))]
    if not is_saved and not any(file for f in inner for kind in ("*.parquet", "*.arrow") for file in f.glob(kind)):
        return None
    rows, names = Rows(), names_beside(root)
    for path, role in find_tables(root):
        add_table(rows, path, role, names)
    return rows


def _from_shards(root: Path) -> Rows | None:
    shards = find_shards(root)
    rows, names = Rows(), numbered_classes(root)
    for path, role in shards:
        add_shard(rows, path, role, names)
    return rows if shards else None


def add_unlabelled(part: Part, source: Path) -> None:
    """Add the images of a folder, of a .tar file or of a list (one path per line) without labels."""
    if exists(source) and source.is_dir():
        images, _ = image_files(source)
        part.add_files(images)
    elif exists(source) and source.suffix.lower() == ".tar":
        rows = Rows()
        add_shard(rows, source, "train", {})
        for entry in rows.train:
            part.add(entry)
    elif exists(source) and source.suffix.lower() in (".txt", ".lst"):
        known: dict[str, str] = {}  # a list may name a file many times
        folder = source.parent
        part.add_files(known.setdefault(name, path_inside(folder, name)) for _, name in lines_of(source))
    else:
        raise UserError(f"there is no folder, .tar file or list (.txt) {source} of unlabelled images.")
    if not len(part):
        raise UserError(f"{source} has no image.")
