"""Download a file: with resume, retries and a checksum; it gets its name only when it is complete."""

from __future__ import annotations

import hashlib
import http.client
import re
import shutil
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from semco.errors import UserError
from semco.files import cannot_write, flush_to_disk, open_in_place

# report(stage, done, total); total is None when it is not known.
Report = Callable[[str, int, int | None], None]

CHUNK = 2**18
TRIES = 5  # consecutive attempts without progress before the download fails
PROGRESS = 2**16  # bytes that an attempt, and a connection during `PATIENCE` seconds, has to deliver
PATIENCE = 60.0
TIMEOUT = 20.0  # seconds without an answer
LARGEST = 2**34  # bytes of a file whose size is not known
# Errors of a connection that fails; errors of the files are converted where they happen.
_DROPPED = (OSError, http.client.HTTPException)
_TRY_AGAIN = frozenset({408, 429, 500, 502, 503, 504})


def no_report(stage: str, done: int, total: int | None) -> None:
    """Ignore the progress."""


@dataclass(frozen=True)
class Source:
    """An official file: address, name, size and checksum (where known) and licence."""

    url: str
    file: str
    size: int | None = None
    sha256: str | None = None
    licence: str = ""


def download(source: Source, folder: Path, report: Report = no_report, pause: float = 1.0) -> Path:
    """Download a source into ``folder`` and return its path.

    Failed attempts are ``pause`` seconds apart at first; the pause doubles with each attempt.
    """
    target, part = folder / source.file, folder / f"{source.file}.part"
    with _writing(target):
        if target.is_file() and source.size in (None, target.stat().st_size) and _size(target):
            return target
        folder.mkdir(parents=True, exist_ok=True)
    for path in (target, part):
        if path.exists() and not path.is_file():
            raise UserError(f"{path} exists and is not a regular file; move it away, or fetch into another folder.")
    tries = 0
    while True:
        before = _size(part)
        try:
            total = _fetch_rest(source, part, report)
            break
        except _DROPPED as error:
            tries = 0 if _size(part) - before >= PROGRESS else tries + 1
            if tries >= TRIES:
                raise _unreachable(source, part, error) from None
            time.sleep(pause * 2**tries if tries else 0)
    with _writing(target):
        _check(source, part, total, report)
        flush_to_disk(part)
        part.replace(target)
        flush_to_disk(folder)
    return target


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    """Convert errors of the file system into a `UserError` about ``path``."""
    try:
        yield
    except OSError as error:
        raise cannot_write(path, error) from None


def _fetch_rest(source: Source, part: Path, report: Report) -> int:
    """Download the missing bytes of ``part``, and return the size of the complete file."""
    done = _size(part)
    if done and done == source.size:
        return done
    try:
        response = _request(source, done)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code == 416 and done:  # no bytes left: ``part`` is complete, or belongs to another file
            return _handle_range_error(error, part, done)
        if error.code in _TRY_AGAIN:
            raise ConnectionError(f"HTTP {error.code}") from None
        raise _unexpected(source, error.code, error.reason) from None
    with response:
        return _receive(response, source, part, done, report)


def _request(source: Source, done: int) -> http.client.HTTPResponse:
    """Return the response of the server, from which the bytes after the first ``done`` can be read."""
    request = urllib.request.Request(source.url, headers={"Range": f"bytes={done}-"} if done else {})
    try:
        response: http.client.HTTPResponse = urllib.request.urlopen(request, timeout=TIMEOUT)
    except ValueError as error:  # the address to which the server redirects
        raise UserError(f"{source.url} leads to an invalid address ({error}); download the file by hand.") from None
    return response


def _unexpected(source: Source, status: int, reason: str) -> UserError:
    return UserError(f"{source.url} answers {status} {_one_line(reason)}; download the file by hand.")


def _one_line(reason: object) -> str:
    """Return a reason, which may be text of the server, as a short line that can be printed."""
    text = " ".join(str(reason).split()) or type(reason).__name__
    return "".join(letter if letter.isprintable() else "?" for letter in text[:200])


def _receive(response: http.client.HTTPResponse, source: Source, part: Path, done: int, report: Report) -> int:
    """Append the response to ``part``, or start again if the server ignored the range; return the size."""
    if "text/html" in response.headers.get("Content-Type", ""):
        raise UserError(f"{source.url} answers with a web page instead of {source.file}; download it with a browser.")
    if response.status not in (200, 206):
        raise _unexpected(source, response.status, response.reason)
    if response.status == 200:
        done = 0
    elif _range_start(response) != done:
        raise ConnectionError("the server sent another part of the file")
    total = _announced_size(response, source, done)
    with _writing(part):
        _check_announced(source, part, total, done)
    with open_in_place(part, "ab" if done else "wb") as stream:
        for chunk in _chunks(response):
            done += len(chunk)
            if done > (source.size or LARGEST):
                raise UserError(
                    f"{source.url} sends more than the {source.size or LARGEST} bytes of {source.file}; "
                    "download the file by hand."
                )
            with _writing(part):
                stream.write(chunk)
                stream.flush()
            report(f"fetching {source.file}", done, total)
    if total is not None and done < total:
        raise ConnectionError(f"the connection ended after {done} of {total} bytes")
    return done


def _announced_size(response: http.client.HTTPResponse, source: Source, done: int) -> int | None:
    """Return the size of the complete file, or None if it is not known but the server marks the end of the file."""
    length = response.headers.get("Content-Length", "")
    if re.fullmatch("[0-9]{1,18}", length) and not response.chunked:
        return done + int(length)
    if source.size is None and not response.chunked:
        raise UserError(
            f"{source.url} does not say how large {source.file} is, so that an incomplete file would not be noticed; "
            "download the file by hand."
        )
    return source.size


def _chunks(response: http.client.HTTPResponse) -> Iterator[bytes]:
    """Yield the bytes of a response as they arrive; a server that becomes too slow raises a `TimeoutError`."""
    received, start = 0, time.monotonic()
    while chunk := response.read1(CHUNK):
        yield chunk
        received += len(chunk)
        if received >= PROGRESS:
            received, start = 0, time.monotonic()
        elif time.monotonic() - start > PATIENCE:
            raise TimeoutError(f"fewer than {PROGRESS} bytes in {PATIENCE:g} seconds")


def _range_start(response: http.client.HTTPResponse) -> int:
    """Return the start of the range (``bytes 100-199/200`` -> 100), or -1 if the response has none."""
    start = response.headers.get("Content-Range", "").removeprefix("bytes ").partition("-")[0]
    return int(start) if re.fullmatch("[0-9]{1,18}", start) else -1


def _handle_range_error(error: urllib.error.HTTPError, part: Path, done: int) -> int:
    """Return the size of ``part`` if it is complete; otherwise delete it and ask for another attempt."""
    if error.headers.get("Content-Range", "").endswith(f"/{done}"):
        return done
    with _writing(part):
        part.unlink()
    raise ConnectionError("the file on the server is shorter than the part downloaded so far") from None


def _check_announced(source: Source, part: Path, total: int | None, done: int) -> None:
    """Raise a `UserError` if the announced size is wrong or does not fit on the disk."""
    if total is not None and source.size is not None and total != source.size:
        raise UserError(f"{source.url} offers {total} bytes, not the {source.size} of {source.file}.")
    free = shutil.disk_usage(part.parent).free
    if total is not None and total - done > free:
        raise UserError(f"{part.parent} has {free / 1e9:.1f} GB free; {source.file} needs {total / 1e9:.1f} GB.")


def _check(source: Source, part: Path, total: int, report: Report) -> None:
    """Raise a `UserError` and delete ``part`` if its size or checksum is wrong."""
    found = _size(part)
    if not found:
        part.unlink(missing_ok=True)
        raise UserError(f"{source.url} answers with an empty file; fetch {source.file} again, or download it by hand.")
    if found != total or source.size not in (None, found):
        part.unlink()
        raise UserError(f"{source.file} has {found} bytes instead of {source.size or total}; fetch it again.")
    if source.sha256 is not None and sha256(part, f"checking {part.stem}", report) != source.sha256:
        part.unlink()
        raise UserError(f"{source.file} does not have the checksum {source.sha256}; fetch it again.")


def _size(path: Path) -> int:
    return path.stat().st_size if path.is_file() else 0


def _unreachable(source: Source, part: Path, error: Exception) -> UserError:
    reason = _one_line(getattr(error, "reason", error))
    kept = f"; {_size(part)} bytes are kept: fetch it again to resume" if _size(part) else ""
    return UserError(f"{source.url} cannot be reached ({reason}) after {TRIES} tries{kept}.")


def sha256(path: Path, stage: str, report: Report) -> str:
    """Return the SHA-256 of a file as hexadecimal digits, reporting the bytes read under the name ``stage``."""
    digest, done, total = hashlib.sha256(), 0, path.stat().st_size
    with path.open("rb") as stream:
        while chunk := stream.read(2**22):
            digest.update(chunk)
            done += len(chunk)
            report(stage, done, total)
    return digest.hexdigest()
