"""Damaged sources of images: lists, tables, Arrow and Parquet files, shards, official folders, downloaded archives.

A case is refused with a sentence, or gives a data set whose images are all inside the folder of the case.
"""

from __future__ import annotations

import io
import json
import tarfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pyarrow as pa
from PIL import Image
from pyarrow import parquet

from semco.config import DataConfig
from semco.data.sources import list_source, load
from semco.data.sources.fetch import unpack
from torture.archives import check
from torture.attack import Attack, Case, Failure
from torture.mutations import NASTY_TEXT, damage

Files = dict[str, bytes]
ESCAPES = ("../outside/victim.txt", "/etc/passwd", "a/../../x.png", "..", "\0", "x" * 5000, "C:\\x.png", "~/x.png")


@dataclass(frozen=True)
class Source:
    """A small undamaged source: its files, and the configuration that reads it."""

    files: Files
    name: str | None = None  # of a registered data set
    labels_from: str | None = None


def png(grey: int) -> bytes:
    stream = io.BytesIO()
    Image.new("RGB", (8, 8), (grey, grey, grey)).save(stream, "PNG")
    return stream.getvalue()


def tar_of(files: Files) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return stream.getvalue()


def prepare(_folder: Path) -> dict[str, Source]:
    photos = {f"{name}/{i}.png": png(20 * i) for name in ("cat", "dog") for i in range(3)}
    flat = {f"{i}.png": png(20 * i) for i in range(4)}
    table = pa.table({"image": [{"bytes": png(i), "path": None} for i in range(6)], "label": [0, 1, 0, 1, -1, 1]})
    info = {"info": {"features": {"label": {"names": ["cat", "dog"]}}}}
    table = table.replace_schema_metadata({"huggingface": json.dumps(info)})
    stored, arrow = io.BytesIO(), io.BytesIO()
    parquet.write_table(table, stored, row_group_size=4)
    with pa.ipc.new_stream(arrow, table.schema) as writer:
        writer.write_table(table, max_chunksize=4)
    shard = tar_of({"0.png": png(0), "0.cls": b"cat", "1.png": png(9), "1.json": b'{"label": "dog"}', "2.png": png(3)})
    cub = ["001.Cat/0.png", "002.Dog/0.png", "001.Cat/1.png", "002.Dog/1.png"]
    lists = {
        "images.txt": cub,
        "image_class_labels.txt": [1, 2, 1, 2],
        "train_test_split.txt": [1, 1, 0, 0],
        "classes.txt": ["001.Cat", "002.Dog"],
    }
    official = {name: "".join(f"{i} {line}\n" for i, line in enumerate(lines, 1)) for name, lines in lists.items()}
    return {
        "folders": Source({**photos, "unlabeled/x.png": png(5), "test/cat/y.png": png(6), "val/dog/z.png": png(7)}),
        "labels": Source({**flat, "l.csv": b"path,label\n0.png,cat\n1.png,dog\n2.png,\n"}, labels_from="l.csv"),
        "metadata csv": Source({**flat, "metadata.csv": b"file_name,label\n0.png,cat\n1.png,dog\n"}),
        "metadata jsonl": Source(
            {**flat, "metadata.jsonl": b'{"file_name": "0.png", "label": 0}\n{"file_name": "1.png", "label": 1}\n'}
        ),
        "parquet": Source({"train.parquet": stored.getvalue()}),
        "arrow": Source({"train/data-0.arrow": arrow.getvalue(), "dataset_dict.json": b"{}"}),
        "shards": Source({"train-0.tar": shard, "classes.txt": b"cat\ndog\n"}),
        "cub": Source(
            {**{f"images/{name}": png(1) for name in cub}, **{n: t.encode() for n, t in official.items()}}, "cub200"
        ),
        "domainnet": Source(
            {
                **{f"real/{name}": content for name, content in photos.items()},
                "real_train.txt": b"real/cat/0.png 0\nreal/dog/0.png 1\n",
                "real_test.txt": b"real/cat/1.png 0\n",
            },
            "domainnet-real",
        ),
        "mini-imagenet": Source(
            {
                **{f"images/{name.replace('/', '')}": content for name, content in photos.items()},
                **{f"{part}.csv": b"filename,label\ncat0.png,cat\ndog0.png,dog\n" for part in ("train", "val", "test")},
            },
            "mini-imagenet",
        ),
    }


def case(case: Case) -> str:
    random = case.random
    if random.random() < 0.15:
        return unpack_archive(case)
    source = case.originals[random.choice(sorted(case.originals))]
    root = case.folder / "data"
    write(root, damaged(random, source.files))
    table = None if source.labels_from is None else root / source.labels_from
    registered = {"source": source.name, "root": root} if source.name else {"source": str(root)}
    config = DataConfig(**registered, labels_from=table, image_size=8)  # type: ignore[arg-type]
    listing = list_source(config)
    if listing is not None:
        names = [*listing.train.names, *listing.test.names]
        if any(not Path(name).is_relative_to(root) or ".." in Path(name).parts for name in names):
            raise Failure("an image outside the folder was listed", repr(names[:3]))
    check(load(config))
    return "loaded"


def write(root: Path, files: Files) -> None:
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content)


def damaged(random: Random, files: Files) -> Files:
    """Damage one of the files, images less often than lists; sometimes leave one out."""
    others = [name for name in files if not name.endswith(".png")]
    name = random.choice(others if others and random.random() < 0.8 else sorted(files))
    if random.random() < 0.05:
        return {each: content for each, content in files.items() if each != name}
    is_text = name.endswith((".csv", ".txt", ".jsonl", ".json"))
    change: Callable[[Random, bytes], bytes] = damage_text if is_text and random.random() < 0.7 else damage
    return {**files, name: change(random, files[name])}


def damage_text(random: Random, content: bytes) -> bytes:
    """Replace a cell, a line or a separator of a list."""
    lines = content.decode().splitlines() or [""]
    number = random.randrange(len(lines))
    new = random.choice(
        (*ESCAPES, *map(str, NASTY_TEXT), "", "0.png,cat,", "[]", "{" * 1000, '"', "cat/0.png 99999999999")
    )
    separator = random.choice((",", " ", "\t", ";"))
    cells = lines[number].split(separator)
    cells[random.randrange(len(cells))] = new
    lines[number] = random.choice((separator.join(cells), new, lines[number] * 2, ""))
    if random.random() < 0.2:
        lines.append(random.choice(lines))
    return "\n".join(lines).encode("utf-8", "backslashreplace")


def unpack_archive(case: Case) -> str:
    """Unpack an archive with hostile members, damaged or not: nothing may be written beside the folder."""
    random, folder = case.random, case.folder / "to"
    folder.mkdir()
    names = ["real/a.txt", random.choice(("real/b.txt", "../out.txt", "/tmp/semco-out", "a/../../b", "real", "."))]
    content = zipped(names) if random.random() < 0.5 else tarred(random, names)
    suffix = "zip" if content.startswith(b"PK") else "tgz"
    if random.random() < 0.5:
        content = damage(random, content)
    archive = folder / f"archive.{suffix}"
    archive.write_bytes(content)
    try:
        unpack(archive, folder)
    finally:
        beside = sorted(path.name for path in case.folder.iterdir())
        leftovers = [path.name for path in folder.iterdir() if path.name.startswith(".")]
        if beside != ["to"] or leftovers or Path("/tmp/semco-out").exists():
            raise Failure("an archive wrote where it must not", f"{beside} {leftovers}")
    return "unpacked"


def zipped(names: list[str]) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in names:
            archive.writestr(name, "x" * 1000)
    return stream.getvalue()


def tarred(random: Random, names: list[str]) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as archive:
        for name in names:
            member = tarfile.TarInfo(name)
            member.type = random.choice((tarfile.REGTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE))
            member.linkname = random.choice(("../../x", "/etc/passwd", "real/a.txt"))
            archive.addfile(member)
    return stream.getvalue()


ATTACK = Attack("sources", cases=3000, minutes=1, case=case, prepare=prepare, memory=1 << 30)
