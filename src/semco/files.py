"""Reading and writing of files.

A file is written under a temporary name, flushed to disk, then renamed, so a process that is killed never leaves an
incomplete file under the final name. Only regular files are read: opening a named pipe or a device can wait forever.
"""

from __future__ import annotations

import errno
import json
import math
import os
import re
import secrets
import shutil
import stat
import struct
import warnings
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import IO, Any, BinaryIO, Literal

try:
    import fcntl
except ImportError:  # not a POSIX system
    fcntl = None  # type: ignore[assignment]

from safetensors import SafetensorError

from semco.errors import ExistsError, SemcoWarning, UserError, brief, nearest

MOST_NAMES = 2000  # names of a folder that are compared with a misspelt one


@contextmanager
def atomic_path(target: Path) -> Iterator[Path]:
    """Yield a temporary path beside ``target``; the file replaces ``target`` if the block ends without an error."""
    temporary, mode = _empty_file_beside(target)
    try:
        yield temporary
        flush_to_disk(temporary)
        temporary.chmod(mode)  # safetensors puts a file in its place that only its owner can read
        temporary.replace(target)
        flush_to_disk(target.parent)  # a rename survives a power loss only if the folder is on the disk
    except (OSError, SafetensorError) as error:  # safetensors reports a full disk as its own error
        raise cannot_write(target, error) from error
    finally:
        temporary.unlink(missing_ok=True)


def _empty_file_beside(target: Path) -> tuple[Path, int]:
    """Create an empty file in the folder of ``target``, and the folder if it does not exist; return path and mode.

    The mode is what the user's umask leaves, as for any file of theirs.
    """
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        while True:
            path = target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")
            with suppress(FileExistsError):
                handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
                break
        mode = stat.S_IMODE(os.fstat(handle).st_mode)
    except OSError as error:
        raise cannot_write(target, error) from error
    os.close(handle)
    return path, mode


def cannot_write(target: Path, error: Exception) -> UserError:
    """Return the error for a file that cannot be written, with the reason of the operating system."""
    return UserError(f"cannot write {target}: {getattr(error, 'strerror', None) or error}.")


def is_leftover(path: Path) -> bool:
    """Return whether this is a temporary file that a killed process left behind; it can be ignored.

    Our own are called ``.NAME.xxxxxxxx.tmp``, those of safetensors ``.tmp`` and six letters or digits.
    """
    return re.fullmatch(r"\..+\.[a-z0-9_]{8}\.tmp|\.tmp[A-Za-z0-9]{6}", path.name, re.DOTALL) is not None


def remove_leftovers(folder: Path) -> None:
    """Remove the temporary files that killed processes left in a folder, and nothing else."""
    for path in folder.iterdir() if folder.is_dir() else ():
        if is_leftover(path) and path.is_file() and not path.is_symlink():
            path.unlink(missing_ok=True)


def remove_leftover_folders(target: Path) -> None:
    """Remove the temporary folders ``.NAME.xxxxxxxx.part`` that killed processes left beside a folder of this name."""
    for path in target.parent.iterdir():
        is_leftover = re.fullmatch(rf"\.{re.escape(target.name)}\.[a-z0-9_]{{8}}\.part", path.name, re.DOTALL)
        if is_leftover and path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)


def remove_leftover_files(target: Path) -> None:
    """Remove the temporary files ``.NAME.xxxxxxxx.tmp`` that killed processes left beside a file of this name."""
    for path in target.parent.iterdir() if target.parent.is_dir() else ():
        if path.name.startswith(f".{target.name}.") and is_leftover(path) and path.is_file():
            path.unlink(missing_ok=True)


@contextmanager
def atomic_folder(target: Path) -> Iterator[Path]:
    """Yield a temporary folder beside ``target``; it replaces ``target`` if the block ends without an error.

    A folder of this name is moved away first, because a rename cannot replace a full folder.
    """
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
    aside = temporary.with_suffix(".old")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        remove_leftover_folders(target)
        temporary.mkdir()
        yield temporary
        flush_folder(temporary)
        if target.exists():
            target.rename(aside)
        temporary.rename(target)
        flush_to_disk(target.parent)
        shutil.rmtree(aside, ignore_errors=True)
    except (OSError, SafetensorError) as error:
        raise cannot_write(target, error) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


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


def flush_folder(folder: Path) -> None:
    """Wait until everything in a folder, and the folder, is on the disk."""
    for path in (*folder.rglob("*"), folder):
        flush_to_disk(path)


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


# A link could lead out of the folder, and opening a named pipe would wait for its reader.
_NO_DETOUR = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)


_FLAGS = {"rb": os.O_RDONLY, "r+b": os.O_RDWR, "wb": os.O_WRONLY | os.O_CREAT | os.O_TRUNC}
_APPEND = os.O_WRONLY | os.O_CREAT | os.O_APPEND


def open_in_place(path: Path, mode: Literal["a", "ab", "wb", "r+b"]) -> IO[Any]:
    """Open a file to append or overwrite; a link, folder, named pipe or device of its name is a `UserError`."""
    _check_writable_kind(path)
    try:
        return open_no_detour(path, mode)
    except OSError as error:
        raise cannot_write(path, error) from error


def open_no_detour(path: Path, mode: Literal["a", "ab", "wb", "r+b", "rb"]) -> IO[Any]:
    """Open a regular file; anything else of its name, also a link, is an `OSError`, and nothing is waited for."""
    handle = os.open(path, _FLAGS.get(mode, _APPEND) | _NO_DETOUR, 0o666)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))
    return os.fdopen(handle, mode, encoding="utf-8" if mode == "a" else None)


def _check_writable_kind(path: Path) -> None:
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    except OSError as error:
        raise cannot_write(path, error) from error
    if not stat.S_ISREG(mode):
        raise UserError(f"cannot write {path}: it is {_kind_of_file(mode)}, not a regular file; remove it.")


def exists(path: Path) -> bool:
    """Return whether a path exists; one that is too long, or that may not be looked at, does not."""
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


def absolute(path: Path) -> Path:
    """Return the whole path without ".."; links are not followed."""
    return Path(os.path.abspath(path))  # noqa: PTH100


def check_new(path: Path, force: bool) -> None:
    """Refuse to overwrite a file, or to write into a folder that holds something."""
    if force or not exists(path):
        return
    if path.is_dir() and not any(path.iterdir()):
        return
    raise ExistsError(f"{path} exists; choose another name, or force it to be overwritten.")


def no_such(what: str, path: Path) -> UserError:
    """Return the error for a path that does not exist, with the name on the disk that is most like it.

    ``what`` is what it should be: ``run folder``.
    """
    return UserError(f"there is no {what} {path}{nearest_path(path) or '.'}")


def nearest_path(path: Path) -> str:
    """Return the hint ``; did you mean 'photos'?`` for a misspelt path; an empty string if nothing is similar."""
    parent, name = path.parent, path.name
    while not exists(parent) and parent != parent.parent:
        parent, name = parent.parent, parent.name
    try:
        with os.scandir(parent) as found:
            similar = nearest(name, (each.name for each in islice(found, MOST_NAMES)))
    except OSError:
        return ""
    return similar.replace("'", f"'{parent}{os.sep}", 1) if similar and parent != Path() else similar


def expand_home(path: Path) -> Path:
    """Return the path with ``~`` replaced by the home folder; ``~name`` of an unknown user stays as it is."""
    try:
        return path.expanduser()
    except RuntimeError:
        return path


def open_regular(path: Path) -> BinaryIO:
    """Open a regular file for reading bytes; a `UserError` says why another path cannot be opened."""
    try:
        mode = path.stat().st_mode
        stream = path.open("rb") if stat.S_ISREG(mode) else None
    except FileNotFoundError:
        raise UserError(f"{path} is missing; restore it, or check the path.") from None
    except (OSError, ValueError) as error:  # ValueError: the path contains a null character
        raise cannot_read(path, error) from None
    if stream is None:
        raise UserError(f"{path} is {_kind_of_file(mode)}, not a regular file; give the path of a regular file.")
    return stream


def cannot_read(path: Path, error: Exception) -> UserError:
    """Return the error for a file that cannot be read, with the reason of the operating system."""
    reason = getattr(error, "strerror", None) or error
    return UserError(f"cannot read {path}: {reason}; check the path and its permissions.")


def _kind_of_file(mode: int) -> str:
    """Return what a path that is not a regular file is, for an error message."""
    return _KINDS_OF_FILES.get(stat.S_IFMT(mode), "a device")


_KINDS_OF_FILES = {
    stat.S_IFDIR: "a folder",
    stat.S_IFREG: "a file",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFLNK: "a link",
}


def read_text(path: Path, most_bytes: int | None = None, encoding: str = "utf-8") -> str:
    """Return the content of a text file; a file of more than ``most_bytes``, if given, is a `UserError`."""
    with open_regular(path) as stream:
        try:
            size = os.fstat(stream.fileno()).st_size  # a larger limit would be allocated, whatever the file has
            content = stream.read(-1 if most_bytes is None else min(most_bytes, size) + 1)
        except OSError as error:
            raise cannot_read(path, error) from None
    if most_bytes is not None and len(content) > most_bytes:
        raise UserError(
            f"{path} has more than the {most_bytes:,} bytes that are read; check that it is the right file."
        )
    try:
        return content.decode(encoding)
    except UnicodeDecodeError:
        raise UserError(f"{path} is not a text file in UTF-8; save it as UTF-8, or check the path.") from None


# Errors of `zipfile` for an archive or a member that cannot be read.
ZIP_ERRORS = (zipfile.BadZipFile, zlib.error, EOFError, struct.error, OSError)
_ZIP_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_HIGHEST_RATIO = 1040  # deflate makes data at most 1,032 times smaller


def open_zip(stream: IO[bytes]) -> zipfile.ZipFile:
    """Open a zip archive; a damaged one raises one of `ZIP_ERRORS`."""
    try:
        return zipfile.ZipFile(stream)
    except (ValueError, RuntimeError, OSError, LookupError, OverflowError) as error:
        raise zipfile.BadZipFile(str(error)) from None


def open_zip_member(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> IO[bytes]:
    """Open a member of an archive; one that cannot be read, or announces too large a size, raises a `BadZipFile`."""
    if member.flag_bits & 0x1:
        raise zipfile.BadZipFile(f"{member.filename} is encrypted")
    if member.compress_type not in _ZIP_METHODS:
        raise zipfile.BadZipFile(f"{member.filename} is compressed by method {member.compress_type}, not by deflate")
    if member.file_size > _HIGHEST_RATIO * (member.compress_size + 1):
        raise zipfile.BadZipFile(f"{member.filename} cannot have the {member.file_size:,} bytes that it announces")
    try:
        return archive.open(member)
    except (ValueError, RuntimeError, OSError, LookupError, OverflowError) as error:
        raise zipfile.BadZipFile(str(error)) from None


def read_json(path: Path) -> Any:
    """Return the content of a JSON file; raise a `UserError` if it is missing or not valid."""
    text = read_text(path)
    try:
        return json.loads(text)
    except ValueError as error:  # also an integer of more digits than Python reads
        raise UserError(f"{path} is not valid JSON ({error}); restore the file.") from None
    except RecursionError:
        raise UserError(f"{path} is not valid JSON (its values are nested too deep); restore the file.") from None


def read_json_object(path: Path) -> dict[str, Any]:
    """Return the content of a JSON file that holds an object; any other content is a `UserError`."""
    value = read_json(path)
    if not isinstance(value, dict):
        raise UserError(f"{path} contains {_JSON_KINDS[type(value)]}, not a JSON object; restore the file.")
    return value


_JSON_KINDS = {
    list: "a list",
    str: "a text",
    int: "a number",
    float: "a number",
    bool: "true or false",
    type(None): "null",
}


def cache_folder(name: str) -> Path | None:
    """Return the folder of this name in SemCo's part of the user's cache folder; None if it cannot be written.

    Nobody else can write there: the folders are the user's own, and no links, which a stranger could lead elsewhere.
    """
    try:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache").absolute()
        base.mkdir(parents=True, exist_ok=True)
        for folder in (base / "semco", base / "semco" / name):
            make_private(folder)
    except UserError as error:
        warnings.warn(f"nothing is kept in the cache: {error}", SemcoWarning, stacklevel=2)
        return None
    except (OSError, RuntimeError):  # the user may have no home
        return None
    return folder if os.access(folder, os.W_OK | os.X_OK) else None


def make_private(folder: Path) -> None:
    """Make a folder that only its owner can use; one that is a link, or another user's, is a `UserError`."""
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode):
        raise UserError(f"{folder} is {_kind_of_file(found.st_mode)}, not a folder; remove it, or set XDG_CACHE_HOME.")
    if hasattr(os, "getuid") and found.st_uid != os.getuid():
        raise UserError(f"{folder} belongs to another user; set XDG_CACHE_HOME to a folder of your own.")
    if os.name == "posix" and found.st_mode & 0o077:
        folder.chmod(0o700)


def cache_limit(default: int) -> int:
    """Return how many bytes a cache may take: what SEMCO_CACHE_GB says, in gigabytes, else ``default``."""
    text = os.environ.get("SEMCO_CACHE_GB", "")
    if not text:
        return default
    try:
        limit = float(text)
    except ValueError:
        limit = math.nan
    if not 0 <= limit < math.inf:
        raise UserError(f"SEMCO_CACHE_GB = {brief(text)} is not a number of gigabytes: set it to a number such as 20.")
    return int(limit * 10**9)
