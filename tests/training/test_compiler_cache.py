"""The folder of compiled code: whose it is, which files in it are damaged, when it is cleared."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest
import torch

from semco.training.compiler.cache import (
    ELF_HEADER,
    ELF_MAGIC,
    VARIABLE,
    CompilerCache,
    compiler_cache,
    own_folder,
    remove_damaged_libraries,
)

# The header of a library, 100 bytes of code, and a table of 3 sections of 64 bytes each.
WHOLE = ELF_HEADER.pack(ELF_MAGIC, 3, 62, 1, 0, 0, 164, 0, 64, 0, 0, 64, 3, 2) + bytes(100) + bytes(3 * 64)


def library(folder: Path, name: str, content: bytes) -> Path:
    file = folder / name[:2] / f"{name}.main.so"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)
    return file


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder of the user, who has set no folder for compiled code."""
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path


def test_compiled_code_has_a_folder_of_its_own_per_version(home: Path) -> None:
    with compiler_cache() as cache:
        assert cache is not None
        assert os.environ[VARIABLE] == str(cache.folder)
        assert cache.folder.is_relative_to(home / "semco")
        assert torch.__version__ in cache.folder.name
    assert VARIABLE not in os.environ


def test_the_folder_that_the_user_has_set_is_used(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, str(home / "mine"))
    with compiler_cache() as cache:
        assert cache is not None
        assert cache.folder == home / "mine"
        kept = library(cache.folder, "kept", b"code of another program")
        cache.clear()
    assert kept.exists()
    assert os.environ[VARIABLE] == str(home / "mine")


def test_without_a_cache_folder_torch_uses_its_own(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(home / "file"))
    assert own_folder() is None
    monkeypatch.setattr("torch._inductor.runtime.cache_dir_utils.default_cache_dir", lambda: str(home / "torch"))
    with compiler_cache() as cache:
        assert cache is not None
        assert cache.folder == home / "torch"


def test_a_run_that_does_not_compile_needs_no_folder(home: Path) -> None:
    with compiler_cache(False) as cache:
        assert cache is None
    assert list(home.iterdir()) == []


@pytest.mark.parametrize("length", [0, 4, 60, 64, len(WHOLE) // 2, len(WHOLE) - 1])
def test_empty_and_truncated_libraries_are_removed(length: int, tmp_path: Path) -> None:
    whole, damaged = library(tmp_path, "whole", WHOLE), library(tmp_path, "damaged", WHOLE[:length])
    remove_damaged_libraries(tmp_path)
    assert whole.exists()
    assert not damaged.exists()


def test_a_library_that_another_process_writes_is_left_alone(tmp_path: Path) -> None:
    file = library(tmp_path, "key", b"")
    (tmp_path / "locks").mkdir()
    with (tmp_path / "locks" / "key.lock").open("w") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)  # as torch does while the compiler runs
        remove_damaged_libraries(tmp_path)
        assert file.exists()
    remove_damaged_libraries(tmp_path)
    assert not file.exists()


def test_a_folder_is_cleared_by_one_of_two_runs(tmp_path: Path) -> None:
    folder = tmp_path / "compiled"
    library(folder, "old", b"damaged")
    first, second = (CompilerCache(folder, is_own=True) for _ in range(2))
    assert first.had_libraries
    first.clear()
    assert not list(folder.iterdir())
    new = library(folder, "new", WHOLE)
    second.clear()
    assert new.exists()
    assert list(tmp_path.iterdir()) == [folder]
