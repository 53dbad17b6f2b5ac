"""The folder in which torch caches compiled code: one of our own, checked before it is used."""

from __future__ import annotations

import os
import shutil
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch

from semco.files import cache_folder, lock

VARIABLE = "TORCHINDUCTOR_CACHE_DIR"
# The header of a 64-bit ELF file: identification, ..., offset of the section table, ..., size and number of sections.
ELF_MAGIC, ELF_HEADER = b"\x7fELF", struct.Struct("<16sHHIQQQIHHHHHH")


class CompilerCache:
    """The folder of compiled code that a run uses; ``is_own`` if no other program uses it."""

    def __init__(self, folder: Path, *, is_own: bool) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        remove_damaged_libraries(folder)
        self.folder, self._is_own = folder, is_own
        self._inode = folder.stat().st_ino
        self.had_libraries = any(folder.rglob("*.so"))

    def clear(self) -> None:
        """Delete the damaged libraries, and all code if the folder is our own.

        Another run may have done so since this one started; the code that is there now is then left alone.
        """
        remove_damaged_libraries(self.folder)
        if self._is_own and self.folder.exists() and self.folder.stat().st_ino == self._inode:
            removed = self.folder.rename(self.folder.with_name(f"{self.folder.name}.removed-{os.getpid()}"))
            self.folder.mkdir(exist_ok=True)  # while the old one exists, so that it gets another inode
            shutil.rmtree(removed, ignore_errors=True)
        self.folder.mkdir(parents=True, exist_ok=True)


@contextmanager
def compiler_cache(is_wanted: bool = True) -> Iterator[CompilerCache | None]:
    """Let torch cache compiled code in `own_folder` for the length of the block, unless the user has set a folder.

    torch's own default is shared by all programs of a user, and one that is killed while it compiles can leave a
    library there at which the others fail.
    """
    if not is_wanted:
        yield None
        return
    from torch._inductor.runtime.cache_dir_utils import cache_dir, default_cache_dir

    before = os.environ.get(VARIABLE)
    own = own_folder() if before in (None, default_cache_dir()) else None  # torch sets the variable to its default
    if own is not None:
        os.environ[VARIABLE] = str(own)
    try:
        yield CompilerCache(Path(cache_dir()), is_own=own is not None)
    finally:
        if before is None:
            os.environ.pop(VARIABLE, None)
        else:
            os.environ[VARIABLE] = before


def own_folder() -> Path | None:
    """Return the folder of this version of SemCo and torch in the user's cache folder, None if it cannot be written."""
    try:
        own_version = version("semco")
    except PackageNotFoundError:
        own_version = "source"
    return cache_folder(f"compiled-{own_version}-torch-{torch.__version__}")


def remove_damaged_libraries(folder: Path) -> None:
    """Remove the empty and truncated libraries that a killed compiler leaves; every later run would fail at them.

    A library that another process is writing, which torch locks for that time, is left alone.
    """
    for file in [*folder.rglob("*.so"), *folder.rglob("*.o")]:
        if not is_damaged(file):
            continue
        held = folder / "locks" / f"{file.name.partition('.')[0]}.lock"
        held.parent.mkdir(exist_ok=True)
        with held.open("a") as stream:
            if lock(stream) and is_damaged(file):
                file.unlink(missing_ok=True)


def is_damaged(library: Path) -> bool:
    """Return whether a file of compiled code is empty or, in the ELF format, shorter than its header says."""
    try:
        size = library.stat().st_size
        with library.open("rb") as stream:
            start = stream.read(ELF_HEADER.size)
    except FileNotFoundError:  # another process has removed it
        return False
    if not start.startswith(ELF_MAGIC):
        return size == 0
    if len(start) < ELF_HEADER.size:
        return True
    *_, table, _, _, _, _, entry, entries, _ = ELF_HEADER.unpack(start)
    return bool(table == 0 or size < table + entry * entries)
