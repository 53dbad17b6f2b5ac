"""Pixels in memory and in a file: the same images, made once, and what happens to the file."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from PIL import Image

from semco.config import DataConfig
from semco.data.datasets import Dataset
from semco.data.folder import read_folder
from semco.data.listing import Part
from semco.data.storage import decoder as decode_part
from semco.data.storage import pixel_cache
from semco.data.storage.chunks import PROGRESS
from semco.data.storage.mapped import is_mapped
from semco.errors import UserError
from tests.forking import forked_python

SIZE = 8
IMAGES = 7  # of each class; with three rows per chunk the last chunk is short


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    monkeypatch.setattr(decode_part, "CHUNK_BYTES", 3 * 3 * SIZE * SIZE)
    monkeypatch.setattr(decode_part, "BLOCK", 2)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Two classes and three test images of random pixels; one image of each class is unreadable."""
    rng = np.random.default_rng(0)
    for name, count in (("cat", IMAGES), ("dog", IMAGES), ("test/cat", 3)):
        (tmp_path / name).mkdir(parents=True)
        for i in range(count):
            Image.fromarray(rng.integers(0, 256, (9, 12, 3), dtype=np.uint8)).save(tmp_path / name / f"{i}.png")
    for broken in ("cat/1.png", "dog/6.png"):
        (tmp_path / broken).write_bytes(b"no image")
    return tmp_path


def read(photos: Path, *, memory: int = 0, **fields: object) -> Dataset:
    return read_folder(photos, DataConfig(image_size=SIZE, memory=memory, **fields))  # type: ignore[arg-type]


def cached_files() -> list[Path]:
    return sorted(Path(os.environ["XDG_CACHE_HOME"]).rglob(pixel_cache.DATA))


def train_file() -> Path:
    return max(cached_files(), key=lambda path: path.stat().st_size)


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the images that are decoded from now on."""
    names: list[str] = []
    original = decode_part.decode
    monkeypatch.setattr(decode_part, "decode", lambda entry, size: names.append(entry.name) or original(entry, size))
    return names


def test_the_file_holds_what_memory_would(photos: Path) -> None:
    memory, cached = read(photos, memory=1), read(photos)
    assert not is_mapped(memory.train_images)
    assert is_mapped(cached.train_images)
    assert cached.train_images.equal(memory.train_images)
    assert cached.train_images.shape == (2 * IMAGES - 2, 3, SIZE, SIZE)
    assert cached.train_labels.tolist() == memory.train_labels.tolist() == [0] * 6 + [1] * 6
    assert cached.train_paths == memory.train_paths
    assert cached.skipped == memory.skipped
    assert [Path(name).parent.name for name in cached.skipped] == ["cat", "dog"]
    assert cached.test_images is not None
    assert memory.test_images is not None
    assert cached.test_images.equal(memory.test_images)
    assert (cached.mean, cached.std) == (memory.mean, memory.std)


def test_the_file_is_made_once(photos: Path, decoded: list[str]) -> None:
    first = read(photos)
    assert len(decoded) == 2 * IMAGES + 3
    decoded.clear()
    again = read(photos)
    assert decoded == []
    assert again.train_images.equal(first.train_images)
    assert again.skipped == first.skipped


def test_large_parts_are_in_a_file_and_small_ones_in_memory(photos: Path) -> None:
    assert not is_mapped(read_folder(photos, DataConfig(image_size=SIZE)).train_images)
    data = read_folder(photos, DataConfig(image_size=200, memory=1))  # 1.4 MB of training and 0.4 MB of test images
    assert data.test_images is not None
    assert (is_mapped(data.train_images), is_mapped(data.test_images)) == (True, False)


@pytest.mark.parametrize("change", ["content", "date", "name", "size", "decoder"])
def test_any_change_makes_another_file(photos: Path, change: str, monkeypatch: pytest.MonkeyPatch) -> None:
    read(photos)
    path = photos / "cat/0.png"
    if change == "content":  # of the same length, with the old date, as an archive would be unpacked
        state = path.stat()
        path.write_bytes(path.read_bytes()[:-1] + b"\0")
        os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))
    elif change == "date":
        os.utime(path, (1, 1))
    elif change == "name":
        path.rename(photos / "cat/00.png")
    elif change == "size":
        read_folder(photos, DataConfig(image_size=SIZE + 1, memory=0))
    else:
        monkeypatch.setattr(pixel_cache, "DECODING", 0)
    read(photos)
    assert len(cached_files()) == (4 if change in ("size", "decoder") else 3)  # the test images did not change


def test_damage_costs_one_chunk(photos: Path, decoded: list[str]) -> None:
    whole = read(photos)
    pixels_before = whole.train_images.clone()
    content = bytearray(train_file().read_bytes())
    content[4 * 3 * SIZE * SIZE] ^= 1  # in the second chunk: the first has two rows, as one image is unreadable
    train_file().write_bytes(content)
    decoded.clear()
    again = read(photos)
    names = {str(Path(name).relative_to(photos)) for name in decoded}
    ahead = {"cat/6.png", "dog/0.png", "dog/1.png"}  # the next chunk may be decoded in advance
    assert names - ahead == {"cat/3.png", "cat/4.png", "cat/5.png"}
    assert again.train_images.equal(pixels_before)


def test_an_interrupted_file_is_continued(photos: Path, decoded: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    expected = read(photos, memory=1).train_images
    with monkeypatch.context() as patch:
        save, calls = pixel_cache.ChunkedFile._save, []

        def fail_third(file: pixel_cache.ChunkedFile, records: list[object]) -> None:
            calls.append(len(records))
            if len(calls) == 3:
                raise KeyboardInterrupt
            save(file, records)  # type: ignore[arg-type]

        patch.setattr(pixel_cache.ChunkedFile, "_save", fail_third)
        with pytest.raises(KeyboardInterrupt):
            read(photos)
    decoded.clear()
    assert read(photos).train_images.equal(expected)
    train = [name for name in decoded if "/test/" not in name]
    assert len(train) == 2 * IMAGES - 2 * 3  # two chunks of three images were finished


def test_an_image_that_is_repaired_meanwhile_moves_the_rest(photos: Path) -> None:
    """The chunk of a damaged file gets another number of rows, so those after it are made again."""
    part = Part()
    part.add_files(sorted(str(path) for path in (photos / "cat").iterdir()))
    root = Path(os.environ["XDG_CACHE_HOME"])
    with decode_part.PartDecoder(part, SIZE) as decoder:
        file = pixel_cache.pixel_file(root, decoder)
        assert [each.rows for each in file.fill(decoder, lambda *_: None)] == [2, 3, 1]
        Image.new("RGB", (9, 9), "red").save(photos / "cat/1.png")
        (file.folder / file.data.name).write_bytes(b"\1" * 100)
        assert [each.rows for each in file.fill(decoder, lambda *_: None)] == [3, 3, 1]
    assert file.data.stat().st_size == 7 * 3 * SIZE * SIZE


def test_nothing_readable(tmp_path: Path) -> None:
    for name in ("cat/a.png", "dog/b.png"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_bytes(b"no image")
    with pytest.raises(UserError, match="none of the 2 images"):
        read(tmp_path, "cache")


def test_strict_names_the_image(photos: Path) -> None:
    with pytest.raises(UserError, match=r"cat/1\.png cannot be read"):
        read(photos, strict=True)


def test_the_size_is_announced_first(photos: Path) -> None:
    seen: list[tuple[str, int, int]] = []
    config = DataConfig(image_size=SIZE, memory=0)
    read_folder(photos, config, lambda *progress: seen.append(progress))
    work, done, total = seen[0]
    assert "reading training images: 14 images of 8 x 8 pixels take 2.7 kB in " in work
    assert (done, total) == (0, 14)
    assert seen[1:6] == [("reading training images", done, 14) for done in (3, 6, 9, 12, 14)]
    seen.clear()
    read_folder(photos, config, lambda *progress: seen.append(progress))
    assert seen == []


def test_a_full_disk_is_one_sentence(photos: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=1000))
    with pytest.raises(UserError, match=r"14 images of 8 x 8 pixels take 0\.0 GB: make room, or set a smaller data"):
        read(photos)


def test_the_oldest_files_give_way(photos: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read(photos)
    first = set(cached_files())
    for path in first:
        os.utime(path.parent / PROGRESS, (1, 1))
    monkeypatch.setenv("SEMCO_CACHE_GB", "0.000003")
    read_folder(photos, DataConfig(image_size=SIZE + 1, memory=0))
    assert not first & set(cached_files())
    monkeypatch.setenv("SEMCO_CACHE_GB", "much")
    with pytest.raises(UserError, match=r"SEMCO_CACHE_GB = 'much' is not a number of gigabytes"):
        read_folder(photos, DataConfig(image_size=SIZE + 2, memory=0))


def test_a_file_that_is_removed_while_it_is_used_stays_readable(photos: Path) -> None:
    data = read(photos)
    expected = read(photos, memory=1).train_images
    train_file().unlink()
    assert data.train_images.equal(expected)
    assert data.train_images.index_select(0, torch.tensor([3])).equal(expected[3:4])


def test_without_a_cache_folder_the_file_is_temporary(
    photos: Path, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("temporary")
    monkeypatch.setattr(pixel_cache, "cache_folder", lambda _: None)
    monkeypatch.setattr(pixel_cache.tempfile, "tempdir", str(folder))
    data = read(photos)
    assert is_mapped(data.train_images)
    assert list(folder.iterdir()) == []
    assert data.train_images.equal(read(photos, memory=1).train_images)


# Reads the photos when the file "go" appears, and decodes so slowly that the processes get into each other's way.
READER = """
import hashlib, json, sys, time
from pathlib import Path
from semco.config import DataConfig
from semco.data.folder import read_folder
from semco.data.storage import decoder

names, original = [], decoder.decode
def decode(entry, size):
    names.append(entry.name)
    time.sleep(0.03)
    return original(entry, size)

decoder.decode, decoder.CHUNK_BYTES, decoder.BLOCK = decode, 3 * 3 * 8 * 8, 2
photos = Path(sys.argv[1])
print("ready", flush=True)
while not (photos.parent / "go").exists():
    time.sleep(0.01)
data = read_folder(photos, DataConfig(image_size=8, memory=0))
digest = hashlib.sha256(data.train_images.numpy().tobytes()).hexdigest()
print(json.dumps({"digest": digest, "decoded": len(names), "skipped": len(data.skipped)}))
"""


def test_processes_that_start_together_make_one_file(
    photos: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path_factory.mktemp("shared")
    monkeypatch.setenv("XDG_CACHE_HOME", str(home / "cache"))
    moved = photos.rename(home / "photos")
    readers = [
        subprocess.Popen([forked_python(), "-c", READER, str(moved)], stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    assert [reader.stdout.readline() for reader in readers if reader.stdout] == ["ready\n", "ready\n"]
    (home / "go").touch()
    found = [json.loads(reader.communicate()[0]) for reader in readers]
    assert [reader.returncode for reader in readers] == [0, 0]
    expected = hashlib.sha256(read(moved, "memory").train_images.numpy().tobytes()).hexdigest()
    assert [each["digest"] for each in found] == [expected, expected]
    assert [each["skipped"] for each in found] == [2, 2]
    assert sum(each["decoded"] for each in found) == 2 * IMAGES + 3  # together, each image once
    assert len(cached_files()) == 2  # training and test images
