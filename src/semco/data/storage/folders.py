"""The folders of stored arrays: their list, their sizes, and which are removed first."""

from __future__ import annotations

import secrets
import shutil
from dataclasses import dataclass
from pathlib import Path

from semco.data.storage.chunks import LOCK, PROGRESS, VanishedError, locked
from semco.errors import UserError
from semco.files import cache_folder

KINDS = ("pixels", "features")  # names of folders in the cache folder


@dataclass(frozen=True)
class StoredArray:
    """An array in a file."""

    folder: Path
    size: int  # bytes
    used: float  # when it was used last, in seconds since 1970


def stored_arrays(root: Path) -> list[StoredArray]:
    """Return the arrays in the folders below ``root``; the one that was used longest ago comes first."""
    found = []
    for folder in root.iterdir() if root.is_dir() else ():
        if folder.is_symlink():
            continue  # nothing outside of the cache is counted or removed
        try:
            used = (folder / PROGRESS).stat().st_mtime
            data = [path for path in folder.iterdir() if path.name not in (PROGRESS, LOCK)]
            found.append(StoredArray(folder, sum(path.stat().st_size for path in data), used))
        except OSError:  # not such a folder, or removed meanwhile
            continue
    return sorted(found, key=lambda each: each.used)


def remove(array: StoredArray) -> bool:
    """Delete an array, unless another process is making it; return whether it was deleted.

    A process that reads it keeps reading: the system deletes the file when nobody uses it any more. The folder is
    renamed first, which is atomic, so a process that makes the same array meanwhile uses a new folder.
    """
    try:
        with locked(array.folder, wait=False):
            _delete(array.folder)
    except UserError:  # its lock is a link or a named pipe, which none of our processes has locked
        _delete(array.folder)
    except (FileNotFoundError, VanishedError):  # another process was faster
        pass
    except OSError:  # another process makes it, or it belongs to another user
        return False
    return True


def _delete(folder: Path) -> None:
    """Delete a folder; if this process is killed meanwhile, the rest can be removed like any other array."""
    place = folder.with_name(f".{folder.name[:40]}.{secrets.token_hex(4)}.part")
    folder.rename(place)
    shutil.rmtree(place)


def remove_oldest(root: Path, keep: Path, most_bytes: int) -> None:
    """Delete the least recently used arrays until all of them take at most ``most_bytes``.

    The folder ``keep`` and arrays that another process is making are left alone.
    """
    arrays = stored_arrays(root)
    total = sum(each.size for each in arrays)
    for each in arrays:
        if total <= most_bytes:
            return
        if each.folder != keep and remove(each):
            total -= each.size


def list_all() -> list[tuple[str, StoredArray]]:
    """Return the arrays in the cache folder of this user, each with the name of its kind."""
    roots = ((kind, cache_folder(kind)) for kind in KINDS)
    return [(kind, array) for kind, root in roots if root is not None for array in stored_arrays(root)]


def clear_all() -> list[StoredArray]:
    """Delete the arrays that no other process is making, and return them."""
    return [array for _, array in list_all() if remove(array)]
