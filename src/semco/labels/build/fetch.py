"""Download the official files: with resume, retries and a checksum; a file gets its name only when it is complete."""

from __future__ import annotations

import http.client
import shutil
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from semco.errors import UserError, unknown
from semco.labels.build.checksum import sha256
from semco.labels.build.progress import Report, no_report

CHUNK = 2**18
TRIES = 5  # consecutive attempts without a new byte before the download fails
_DROPPED = (ConnectionError, TimeoutError, http.client.HTTPException, urllib.error.URLError)
_TRY_AGAIN = frozenset({408, 429, 500, 502, 503, 504})


@dataclass(frozen=True)
class Source:
    """An official file: address, name, size and checksum (where known) and licence."""

    url: str
    file: str
    size: int | None = None
    sha256: str | None = None
    licence: str = ""


SOURCES = {
    "glove": Source(
        "https://nlp.stanford.edu/data/glove.840B.300d.zip",
        "glove.840B.300d.zip",
        2_176_768_927,
        licence="PDDL 1.0",
    ),
    "glove-6b": Source("https://nlp.stanford.edu/data/glove.6B.zip", "glove.6B.zip", 862_182_613, licence="PDDL 1.0"),
    "word2vec": Source(
        "https://drive.usercontent.google.com/download?id=0B7XkCwpI5KDYNlNUTTlSS21pQmM&export=download&confirm=t",
        "GoogleNews-vectors-negative300.bin.gz",
        1_647_046_227,
        "21c05ae916a67a4da59b1d006903355cced7de7da1e42bff9f0504198c748da8",
        licence="Apache 2.0",
    ),
    "conceptnet": Source(
        "https://s3.amazonaws.com/conceptnet/downloads/2019/edges/conceptnet-assertions-5.7.0.csv.gz",
        "conceptnet-assertions-5.7.0.csv.gz",
        497_963_447,
        "accd65fe94038584295574ddc26e1500c1919c8c4532bf771811cafd0948af7e",
        licence="CC BY-SA 4.0",
    ),
    "numberbatch": Source(
        "https://conceptnet.s3.amazonaws.com/downloads/2019/numberbatch/numberbatch-en-19.08.txt.gz",
        "numberbatch-en-19.08.txt.gz",
        licence="CC BY-SA 4.0",
    ),
}


def fetch(what: str, to: Path, report: Report = no_report) -> Path:
    """Download one of `SOURCES` into the folder ``to``, unless it is already there, and return its path."""
    if what not in SOURCES:
        raise unknown("file to fetch", what, SOURCES)
    return download(SOURCES[what], Path(to), report)


def download(source: Source, folder: Path, report: Report = no_report, pause: float = 1.0) -> Path:
    """Download a source into ``folder`` and return its path.

    Failed attempts are ``pause`` seconds apart at first; the pause doubles with each attempt.
    """
    target = folder / source.file
    if target.is_file() and source.size in (None, target.stat().st_size):
        return target
    folder.mkdir(parents=True, exist_ok=True)
    part = folder / f"{source.file}.part"
    tries = 0
    while True:
        before = _size(part)
        try:
            total = _fetch_rest(source, part, report)
            break
        except _DROPPED as error:
            tries = 0 if _size(part) > before else tries + 1
            if tries >= TRIES:
                raise _unreachable(source, part, error) from None
            time.sleep(pause * 2**tries if tries else 0)
    _check(source, part, total, report)
    part.replace(target)
    return target


def _fetch_rest(source: Source, part: Path, report: Report) -> int:
    """Download the missing bytes of ``part``, and return the size of the complete file."""
    done = _size(part)
    if done and done == source.size:
        return done
    request = urllib.request.Request(source.url, headers={"Range": f"bytes={done}-"} if done else {})
    try:
        with urllib.request.urlopen(request, timeout=60) as response:
            return _receive(response, source, part, done, report)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code == 416:  # no bytes left: ``part`` is complete, or belongs to another file
            return _handle_range_error(error, part, done)
        if error.code in _TRY_AGAIN:
            raise ConnectionError(f"HTTP {error.code}") from None
        raise UserError(f"{source.url} answers {error.code} {error.reason}; download the file by hand.") from None


def _receive(response: http.client.HTTPResponse, source: Source, part: Path, done: int, report: Report) -> int:
    """Append the response to ``part``, or start again if the server ignored the range; return the size."""
    if "text/html" in response.headers.get("Content-Type", ""):
        raise UserError(f"{source.url} answers with a web page instead of {source.file}; download it with a browser.")
    resumed = response.status == 206 and _range_start(response) == done
    if not resumed:
        done = 0
    length = response.headers.get("Content-Length")
    total = done + int(length) if length and length.isdigit() else source.size
    _check_announced(source, part, total, done)
    with part.open("ab" if resumed else "wb") as stream:
        while chunk := response.read(CHUNK):
            stream.write(chunk)
            done += len(chunk)
            report(f"fetching {source.file}", done, total)
    if total is not None and done < total:
        raise ConnectionError(f"the connection ended after {done} of {total} bytes")
    return done


def _range_start(response: http.client.HTTPResponse) -> int:
    """Return the start of the range (``bytes 100-199/200`` -> 100), or -1 if the response has none."""
    start = response.headers.get("Content-Range", "").removeprefix("bytes ").partition("-")[0]
    return int(start) if start.isdigit() else -1


def _handle_range_error(error: urllib.error.HTTPError, part: Path, done: int) -> int:
    """Return the size of ``part`` if it is complete; otherwise delete it and ask for another attempt."""
    if error.headers.get("Content-Range", "").endswith(f"/{done}"):
        return done
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
    if found != total or source.size not in (None, found):
        part.unlink()
        raise UserError(f"{source.file} has {found} bytes instead of {source.size or total}; fetch it again.")
    if source.sha256 is not None and sha256(part, f"checking {part.stem}", report) != source.sha256:
        part.unlink()
        raise UserError(f"{source.file} does not have the checksum {source.sha256}; fetch it again.")


def _size(path: Path) -> int:
    return path.stat().st_size if path.is_file() else 0


def _unreachable(source: Source, part: Path, error: Exception) -> UserError:
    reason = getattr(error, "reason", error)
    kept = f"; {_size(part)} bytes are kept: fetch it again to resume" if _size(part) else ""
    return UserError(f"{source.url} cannot be reached ({reason}) after {TRIES} tries{kept}.")
