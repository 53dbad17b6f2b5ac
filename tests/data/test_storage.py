"""Arrays in the cache: nothing is written through links, and who makes room breaks no build."""

from __future__ import annotations

import os
import shutil
import stat
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from semco.data.storage import chunks, folders
from semco.data.storage.chunks import LOCK, PROGRESS, Chunk, ChunkedFile
from semco.data.storage.folders import StoredArray, remove, remove_oldest, stored_arrays
from semco.errors import SemcoWarning, UserError
from semco.files import cache_folder

ROWS = 5  # in chunks of two


def array_in(folder: Path) -> ChunkedFile:
    return ChunkedFile(folder / "rows.u8", np.dtype(np.uint8), (ROWS, 3), 2, "numbers", "use fewer")


def rows(number: int) -> Chunk:
    return Chunk(np.full((min(2, ROWS - 2 * number), 3), number + 1, np.uint8))


def fill(file: ChunkedFile, make: Callable[[int], Chunk] = rows) -> None:
    file.fill(make, lambda *_: None)


def is_right(file: ChunkedFile) -> bool:
    return file.finished() is not None and list(file.data.read_bytes()) == [1] * 6 + [2] * 6 + [3] * 3


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    (tmp_path / "victim").write_text("not to be touched")
    return tmp_path / "victim"


@pytest.mark.parametrize("name", [LOCK, "rows.u8"])
@pytest.mark.parametrize("kind", ["link", "named pipe"])
def test_nothing_is_written_through_a_link_and_no_pipe_is_waited_for(
    tmp_path: Path, victim: Path, name: str, kind: str
) -> None:
    file = array_in(tmp_path / "cache" / "key")
    fill(file)
    (file.folder / name).unlink()
    os.mkfifo(file.folder / name) if kind == "named pipe" else (file.folder / name).symlink_to(victim)
    if name != LOCK:
        assert file.finished() is None
    with pytest.raises(UserError, match=f"{name}: it is a {kind}"):
        fill(file)
    assert remove(StoredArray(file.folder, 15, 0.0))
    assert not file.folder.exists()
    assert victim.read_text() == "not to be touched"


def test_a_link_in_the_place_of_a_folder_is_not_followed(tmp_path: Path) -> None:
    outside, file = array_in(tmp_path / "outside"), array_in(tmp_path / "cache" / "key")
    fill(outside)
    file.folder.parent.mkdir()
    file.folder.symlink_to(outside.folder)
    with pytest.raises(UserError, match="key is a link, not a folder"):
        fill(file)
    assert stored_arrays(file.folder.parent) == []
    remove_oldest(file.folder.parent, tmp_path, 0)
    assert is_right(outside)


def test_folders_of_the_cache_are_private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (tmp_path / "semco").mkdir()
    (tmp_path / "semco").chmod(0o755)  # as earlier versions made it
    root = cache_folder("pixels")
    assert root is not None
    fill(array_in(root / "key"))
    modes = [stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "semco", root, root / "key")]
    assert modes == [0o700] * 3


def test_a_cache_of_another_user_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder("pixels") is not None
    monkeypatch.setattr("os.getuid", lambda: 12345)
    with pytest.warns(SemcoWarning, match="semco belongs to another user; set XDG_CACHE_HOME"):
        assert cache_folder("pixels") is None


def test_a_cache_that_is_a_link_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "outside").mkdir()
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "semco").symlink_to(tmp_path / "outside")
    with pytest.warns(SemcoWarning, match="semco is a link, not a folder"):
        assert cache_folder("pixels") is None
    assert list((tmp_path / "outside").iterdir()) == []


@pytest.mark.parametrize("chunk", [0, 1, 2])
def test_a_build_whose_folder_is_deleted_starts_again(tmp_path: Path, chunk: int) -> None:
    file, made = array_in(tmp_path / "cache" / "key"), []

    def make(number: int) -> Chunk:
        made.append(number)
        if made.count(chunk) == 1 and number == chunk:
            shutil.rmtree(file.folder.parent)
        return rows(number)

    fill(file, make)
    assert made == [*range(chunk + 1), 0, 1, 2]
    assert is_right(file)


def test_a_file_that_is_exchanged_while_it_is_made_is_made_again(tmp_path: Path) -> None:
    file, made = array_in(tmp_path / "key"), []

    def make(number: int) -> Chunk:
        made.append(number)
        if made == [0, 1]:
            file.data.unlink()
            file.data.write_bytes(bytes(15))
        return rows(number)

    fill(file, make)
    assert is_right(file)


@pytest.mark.parametrize("chunk", [0, 2])
def test_a_build_that_meets_half_a_deletion_starts_again(tmp_path: Path, chunk: int) -> None:
    """Who deletes a folder deletes its files one by one; here the lock is still there."""
    file, made = array_in(tmp_path / "key"), []

    def make(number: int) -> Chunk:
        made.append(number)
        if made == [*range(chunk + 1)]:
            file.data.unlink()
        return rows(number)

    fill(file, make)
    assert is_right(file)


def test_a_folder_that_is_deleted_again_and_again_is_one_sentence(tmp_path: Path) -> None:
    file = array_in(tmp_path / "key")

    def make(number: int) -> Chunk:
        shutil.rmtree(file.folder)
        return rows(number)

    with pytest.raises(UserError, match="was deleted 10 times while it was made"):
        fill(file, make)


def test_who_waits_for_a_folder_that_is_then_deleted_makes_it_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lock that was waited for is that of the deleted folder."""
    file, waits = array_in(tmp_path / "key"), threading.Event()
    fill(file)
    monkeypatch.setattr(chunks.time, "sleep", lambda _: waits.set())
    builder = threading.Thread(target=fill, args=(file,))

    def delete(folder: Path) -> None:
        builder.start()
        assert waits.wait(60)
        shutil.rmtree(folder)

    monkeypatch.setattr(folders, "_delete", delete)
    assert remove(StoredArray(file.folder, 15, 0.0))
    builder.join()
    assert is_right(file)


def test_a_folder_that_is_being_made_is_not_removed(tmp_path: Path) -> None:
    file, removed = array_in(tmp_path / "key"), []

    def make(number: int) -> Chunk:
        removed.append(remove(StoredArray(file.folder, 15, 0.0)))
        return rows(number)

    fill(file, make)
    assert removed == [False] * 3
    assert is_right(file)


def test_builds_survive_somebody_who_makes_room_all_the_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two threads build the same arrays, a third one removes them; locks hold between threads as between processes."""
    monkeypatch.setattr(chunks, "WAIT", 0.001)
    errors: list[BaseException] = []
    done = threading.Event()

    def build() -> None:
        try:
            for number in range(100):
                fill(array_in(tmp_path / f"key-{number % 2}"))
        except BaseException as error:
            errors.append(error)

    def make_room() -> None:
        try:
            while not done.is_set():
                remove_oldest(tmp_path, tmp_path, 0)
        except BaseException as error:
            errors.append(error)

    builders = [threading.Thread(target=build) for _ in range(2)]
    remover = threading.Thread(target=make_room)
    for thread in (*builders, remover):
        thread.start()
    for thread in builders:
        thread.join()
    done.set()
    remover.join()
    assert errors == []


def test_what_a_killed_process_left_of_a_removal_is_removed(tmp_path: Path) -> None:
    file = array_in(tmp_path / ".key.0123abcd.part")
    fill(file)
    (file.folder / LOCK).unlink()
    assert (file.folder / PROGRESS).exists()
    remove_oldest(tmp_path, tmp_path, 0)
    assert list(tmp_path.iterdir()) == []
