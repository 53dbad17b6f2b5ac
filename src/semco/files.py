"""Atomic writing: a file is written under a temporary name, flushed to disk, then renamed.

So a process that is killed never leaves an incomplete file under the final name.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

try:
    import fcntl
except ImportError:  # not a POSIX system
    fcntl = None  # type: ignore[assignment]

from safetensors import SafetensorError

from semco.errors import UserError


@contextmanager
def atomic_path(target: Path) -> Iterator[Path]:
    """Yield a temporary path beside ``target``; the file replaces ``target`` if the block ends without an error."""
    temporary = _empty_file_beside(target)
    try:
        yield temporary
        flush_to_disk(temporary)
        temporary.chmod(0o644)  # mkstemp creates files that only their owner can read
        temporary.replace(target)
        flush_to_disk(target.parent)  # a rename survives a power loss only if the folder is on the disk
    except (OSError, SafetensorError) as error:  # safetensors reports a full disk as its own error
        raise cannot_write(target, error) from error
    finally:
        temporary.unlink(missing_ok=True)


def _empty_file_beside(target: Path) -> Path:
    """Create an empty file in the folder of ``target``, and the folder if it does not exist, and return its path."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".tmp", dir=target.parent)
    except OSError as error:
        raise cannot_write(target, error) from error
    os.close(handle)
    return Path(name)


def cannot_write(target: Path, error: Exception) -> UserError:
    """Return the error for a file that cannot be written, with the reason of the operating system."""
    return UserError(f"cannot write {target}: {getattr(error, 'strerror', None) or error}.")


def is_leftover(path: Path) -> bool:
    """Return whether this is a temporary file that a killed process left behind; it can be ignored.

    Our own are called ``.NAME.xxxxxxxx.tmp``, those of safetensors ``.tmp`` and six letters or digits.
    """
    is_ours = path.name.startswith(".") and path.suffix == ".tmp"
    return is_ours or re.fullmatch(r"\.tmp[A-Za-z0-9]{6}", path.name) is not None


def remove_leftovers(folder: Path) -> None:
    """Remove the temporary files that killed processes left in a folder, and nothing else."""
    for path in folder.iterdir() if folder.is_dir() else ():
        if is_leftover(path) and path.is_file() and not path.is_symlink():
            path.unlink(missing_ok=True)


def lock(stream: IO[str]) -> bool:
    """Lock an open file until it is closed; return False if another process has locked it.

    On file systems without locks, and on systems that are not POSIX, nothing is locked and the result is True.
    """
    if fcntl is None:
        return True
    try:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        pass  # a file system without locks
    return True


def flush_to_disk(path: Path) -> None:
    """Wait until the content of a file, or the list of files of a folder, is on the disk."""
    if path.is_dir() and os.name != "posix":
        return  # only POSIX systems can open a folder
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def readable_name(name: str) -> str:
    """Return a file or class name as text that can be shown; bytes that are not UTF-8 become ``\\xe9``."""
    return encode_text(name).decode("utf-8", "backslashreplace")


def encode_text(text: str) -> bytes:
    """Return text as UTF-8; a name that the file system holds in other bytes keeps these bytes."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # surrogates that no file name has, for example from a JSON file
        return text.encode("utf-8", "backslashreplace")


def write_text(target: Path, text: str) -> None:
    """Write a text file atomically."""
    with atomic_path(target) as temporary:
        temporary.write_bytes(encode_text(text))


def write_json(target: Path, value: Any) -> None:
    """Write a JSON file atomically."""
    text = json.dumps(value, indent=2, ensure_ascii=False)
    if not text.isascii() and re.search(r"[\ud800-\udfff]", text):  # names that are not UTF-8 are written as escapes
        text = json.dumps(value, indent=2)
    write_text(target, text + "\n")


def read_json(path: Path) -> Any:
    """Return the content of a JSON file; raise a `UserError` if it is missing or not valid."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"{path} is missing; restore it, or check the path.") from None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{path} is not valid JSON ({error}); restore the file.") from None
