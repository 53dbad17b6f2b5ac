"""Files that are either whole or not there: written under a temporary name, flushed to disk, then renamed."""

from __future__ import annotations

import json
import os
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
    """A temporary path beside ``target``; what was written there replaces ``target`` when the block ends well."""
    temporary = _empty_file_beside(target)
    try:
        yield temporary
        flush_to_disk(temporary)
        temporary.chmod(0o644)  # mkstemp makes files that only their owner may read
        temporary.replace(target)
    except (OSError, SafetensorError) as error:  # safetensors reports a full disk as an error of its own
        raise cannot_write(target, error) from error
    finally:
        temporary.unlink(missing_ok=True)


def _empty_file_beside(target: Path) -> Path:
    """A new file in the target's folder, which is made where it is missing."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".tmp", dir=target.parent)
    except OSError as error:
        raise cannot_write(target, error) from error
    os.close(handle)
    return Path(name)


def cannot_write(target: Path, error: Exception) -> UserError:
    """What the system says of a file that it refuses."""
    return UserError(f"cannot write {target}: {getattr(error, 'strerror', None) or error}.")


def is_leftover(path: Path) -> bool:
    """Whether a kill left this file behind before it could be renamed: it counts for nothing."""
    return path.name.startswith(".") and path.suffix == ".tmp"


def lock(stream: IO[str]) -> bool:
    """Lock an open file for as long as it is open; False where another process has it.

    File systems that know no locks, and systems that are not POSIX, let everybody through.
    """
    if fcntl is None:
        return True
    try:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        pass  # no locks here
    return True


def flush_to_disk(path: Path) -> None:
    """Make sure that the bytes are on the disk before a rename makes them visible."""
    with path.open("rb") as stream:
        os.fsync(stream.fileno())


def write_text(target: Path, text: str) -> None:
    with atomic_path(target) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(target: Path, value: Any) -> None:
    write_text(target, json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def read_json(path: Path) -> Any:
    """The content of a JSON file; a missing or broken one is the user's to know."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"{path} is missing.") from None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{path} is not valid JSON ({error}).") from None
