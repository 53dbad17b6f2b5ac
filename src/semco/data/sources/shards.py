"""WebDataset shards: .tar files in which the files of one sample share a key, for example 0001.jpg and 0001.cls.

A label is the text or number in ``KEY.cls``, or "label", "class" or "cls" in ``KEY.json``. Numbers are replaced by the
lines of ``classes.txt`` beside the shards, if there is one. Shards are not unpacked.
"""

from __future__ import annotations

import io
import json
import re
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from semco.data.decode import IMAGE_SUFFIXES
from semco.data.folder import subfolders
from semco.data.listing import Entry
from semco.data.sources.rows import ROLES, Role, Rows, lines_of
from semco.errors import UserError
from semco.files import exists, open_regular

LABEL_KEYS = ("label", "class", "cls", "class_name")
# Bytes of an image that are read, and of a file with a label.
MOST_BYTES, MOST_LABEL_BYTES = 1 << 28, 1 << 20
TAR_ERRORS = (tarfile.TarError, OSError, EOFError, ValueError, OverflowError, LookupError, RecursionError)


@dataclass(frozen=True)
class Shard:
    """The store of the images in one .tar file; an entry's place is the offset of its bytes."""

    path: Path

    def open(self, entry: Entry) -> BinaryIO:
        if entry.size > MOST_BYTES:
            raise UserError(f"{entry.name} has {entry.size:,} bytes; at most {MOST_BYTES:,} are read.")
        with open_regular(self.path) as stream:
            stream.seek(entry.place)
            return io.BytesIO(stream.read(entry.size))

    def file(self, entry: Entry) -> Path:  # noqa: ARG002 (every store has it)
        return self.path


def find_shards(root: Path) -> list[tuple[Path, Role]]:
    """Return the .tar files in a folder and in its folders train/, val/ and test/, with their parts."""
    found: list[tuple[Path, Role]] = []
    for folder in (root, *(f for f in subfolders(root) if f.name.lower() in ROLES)):
        own = ROLES.get(folder.name.lower()) if folder != root else None
        for file in sorted(folder.glob("*.tar")):
            prefix = re.split(r"[-_.\d]", file.name.lower())[0]
            found.append((file, own or ROLES.get(prefix, "train")))
    return found


def add_shard(rows: Rows, path: Path, role: Role, class_names: dict[str, str]) -> None:
    """Add the images of a shard; a shard that is damaged is read up to the damage, and a note says so."""
    shard = Shard(path)
    key: str | None = None
    image: Entry | None = None
    label: str | None = None
    with open_regular(path) as stream:
        try:
            with tarfile.open(fileobj=stream, mode="r:") as archive:
                for member in archive:
                    if not member.isreg() or member.issparse():
                        continue
                    own, suffix = _split(member.name)
                    if own != key:
                        _add(rows, image, label, role, class_names)
                        key, image, label = own, None, None
                    if suffix in IMAGE_SUFFIXES:
                        image = Entry(f"{path}/{member.name}", shard, member.offset_data, member.size)
                    elif suffix in (".cls", ".json") and member.size <= MOST_LABEL_BYTES:
                        label = _read_label(archive, member, suffix) or label
        except TAR_ERRORS as error:
            rows.notes.append(f"{path} is damaged ({error}) and was read only up to there")
    _add(rows, image, label, role, class_names)


def _add(rows: Rows, image: Entry | None, label: str | None, role: Role, class_names: dict[str, str]) -> None:
    if image is not None:
        rows.add(image, None if label is None else class_names.get(label, label), role)


def _split(name: str) -> tuple[str, str]:
    """Return the key of a sample and the suffix of the file: "a/0001.seg.png" -> ("a/0001", ".png")."""
    folder, slash, file = name.rpartition("/")
    stem, _, suffixes = file.partition(".")
    return folder + slash + stem, f".{suffixes.rpartition('.')[2].lower()}"


def _read_label(archive: tarfile.TarFile, member: tarfile.TarInfo, suffix: str) -> str | None:
    stream = archive.extractfile(member)
    text = stream.read(MOST_LABEL_BYTES).decode("utf-8", "replace").strip() if stream is not None else ""
    if suffix == ".cls":
        return text or None
    values = json.loads(text)
    found = next((values[k] for k in LABEL_KEYS if k in values), None) if isinstance(values, dict) else None
    return str(found) if isinstance(found, str | int) else None


def numbered_classes(root: Path) -> dict[str, str]:
    """Return the class names of ``classes.txt``, one per line, by their number from 0 on; empty without the file."""
    file = next((root / n for n in ("classes.txt", "classnames.txt") if exists(root / n)), None)
    return {} if file is None else {str(i): line for i, (_, line) in enumerate(lines_of(file))}
