"""Downloads from servers that behave, and from servers that do not."""

from __future__ import annotations

import contextlib
import hashlib
import os
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from semco import download as download_module
from semco.download import Source, download
from semco.errors import UserError

DATA = np.random.default_rng(0).bytes(300_000)
DIGEST = hashlib.sha256(DATA).hexdigest()


class Server(ThreadingHTTPServer):
    """Serves `DATA`; ``behaviour`` names how it fails."""

    daemon_threads = True
    behaviour = "good"
    requests: list[str | None]

    def source(self, **known: object) -> Source:
        return Source(f"http://127.0.0.1:{self.server_address[1]}/data", "data.bin", **known)  # type: ignore[arg-type]


class Handler(BaseHTTPRequestHandler):
    server: Server

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        wanted = self.headers.get("Range")
        self.server.requests.append(wanted)
        behaviour = self.server.behaviour
        if behaviour in ("missing", "busy at first") and (behaviour == "missing" or len(self.server.requests) < 3):
            self.send_error(404 if behaviour == "missing" else 503)
            return
        if behaviour in HOSTILE:
            HOSTILE[behaviour](self)
            return
        start = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted and behaviour != "no ranges" else 0
        if start >= len(DATA):
            self.send_response(416)
            self.send_header("Content-Range", f"bytes */{len(DATA)}")
            self.end_headers()
            return
        self.answer(start, behaviour)

    def answer(self, start: int, behaviour: str) -> None:
        body = DATA[start:]
        self.send_response(206 if start else 200)
        self.send_header("Content-Type", "text/html" if behaviour == "page" else "application/zip")
        self.send_header("Content-Length", str(len(body)))
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(DATA) - 1}/{len(DATA)}")
        self.end_headers()
        cut = {"drops": 70_000, "drops at once": 0}.get(behaviour, len(body))
        self.wfile.write(body[:cut])


def send(handler: Handler, status: int, body: bytes = b"", **headers: str) -> None:
    handler.send_response(status)
    for name, value in headers.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.end_headers()
    handler.wfile.write(body)


def send_endlessly(handler: Handler, **headers: str) -> None:
    send(handler, 200, **headers)
    body = b"4000\r\n" + bytes(0x4000) + b"\r\n" if headers else bytes(0x4000)
    with contextlib.suppress(OSError):
        while True:
            handler.wfile.write(body)


def stall(handler: Handler) -> None:
    """Announce the file, send some bytes, and nothing until the client gives up."""
    send(handler, 200, DATA[:100], Content_Length=str(len(DATA)))
    with contextlib.suppress(OSError):
        handler.connection.settimeout(5)
        handler.connection.recv(1)


def drip(handler: Handler) -> None:
    """Send a byte at a time."""
    send(handler, 200, Content_Length=str(len(DATA)))
    with contextlib.suppress(OSError):
        while True:
            handler.wfile.write(b"x")
            time.sleep(0.005)


HOSTILE: dict[str, Callable[[Handler], None]] = {
    "416": lambda handler: send(handler, 416, Content_Range="bytes */0"),
    "204": lambda handler: send(handler, 204),
    "empty": lambda handler: send(handler, 200, Content_Length="0"),
    "no length": lambda handler: send(handler, 200, DATA),
    "half without length": lambda handler: send(handler, 200, DATA[:1000]),
    "longer length": lambda handler: send(handler, 200, DATA, Content_Length=str(len(DATA) + 1)),
    "shorter length": lambda handler: send(handler, 200, DATA, Content_Length="1000"),
    "negative length": lambda handler: send(handler, 200, DATA, Content_Length="-1"),
    "length of digits": lambda handler: send(handler, 200, DATA, Content_Length="9" * 6000),
    "length of no digit": lambda handler: send(handler, 200, DATA, Content_Length="\xb2"),
    "other part": lambda handler: send(handler, 206, DATA, Content_Range="bytes 7-9/10", Content_Length="3"),
    "endless": send_endlessly,
    "endless chunks": lambda handler: send_endlessly(handler, Transfer_Encoding="chunked"),
    "bad chunk": lambda handler: send(handler, 200, b"zz\r\nabc", Transfer_Encoding="chunked"),
    "bad redirect": lambda handler: send(handler, 302, Location="http://[", Content_Length="0"),
    "redirect to a file": lambda handler: send(handler, 302, Location="file:///etc/passwd", Content_Length="0"),
    "no http": lambda handler: handler.wfile.write(b"hello\r\n"),
    "stall": stall,
    "drip": drip,
}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setattr(download_module, "CHUNK", 4096)
    running = Server(("127.0.0.1", 0), Handler)
    running.requests = []
    thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield running
    running.shutdown()
    thread.join()
    running.server_close()


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("known", [{}, {"size": len(DATA)}, {"size": len(DATA), "sha256": DIGEST}])
def test_a_file_is_downloaded_completely_and_once(server: Server, tmp_path: Path, known: dict) -> None:
    reports: list[tuple[str, int, int | None]] = []
    path = download(server.source(**known), tmp_path / "new", lambda *what: reports.append(what))
    assert path.read_bytes() == DATA
    assert names(path.parent) == ["data.bin"]
    assert ("fetching data.bin", len(DATA), len(DATA)) in reports
    download(server.source(**known), tmp_path / "new")
    assert len(server.requests) == 1


def test_dropped_connections_are_resumed(server: Server, tmp_path: Path) -> None:
    server.behaviour = "drops"
    path = download(server.source(size=len(DATA), sha256=DIGEST), tmp_path, pause=0)
    assert path.read_bytes() == DATA
    starts = [int((wanted or "bytes=0-")[6:-1]) for wanted in server.requests]
    assert starts[0] == 0
    assert len(starts) == 5  # 300,000 bytes, 70,000 at a time
    assert all(after > before for before, after in pairwise(starts))


def test_an_interrupted_download_resumes(server: Server, tmp_path: Path) -> None:
    (tmp_path / "data.bin.part").write_bytes(DATA[:123_456])
    path = download(server.source(sha256=DIGEST), tmp_path)
    assert path.read_bytes() == DATA
    assert server.requests == ["bytes=123456-"]


def test_a_server_without_ranges_starts_again(server: Server, tmp_path: Path) -> None:
    server.behaviour = "no ranges"
    (tmp_path / "data.bin.part").write_bytes(b"x" * 123_456)
    assert download(server.source(sha256=DIGEST), tmp_path).read_bytes() == DATA


def test_a_complete_part_is_recognised(server: Server, tmp_path: Path) -> None:
    (tmp_path / "data.bin.part").write_bytes(DATA)
    assert download(server.source(), tmp_path).read_bytes() == DATA
    (tmp_path / "data.bin").rename(tmp_path / "data.bin.part")
    server.requests.clear()
    assert download(server.source(size=len(DATA)), tmp_path).read_bytes() == DATA
    assert server.requests == []


def test_a_part_longer_than_the_file_is_thrown_away(server: Server, tmp_path: Path) -> None:
    (tmp_path / "data.bin.part").write_bytes(DATA + b"more")
    assert download(server.source(), tmp_path, pause=0).read_bytes() == DATA


def test_a_busy_server_is_asked_again(server: Server, tmp_path: Path) -> None:
    server.behaviour = "busy at first"
    assert download(server.source(), tmp_path, pause=0).read_bytes() == DATA


@pytest.mark.parametrize(
    ("behaviour", "known", "message"),
    [
        ("missing", {}, "answers 404"),
        ("page", {}, "answers with a web page"),
        ("drops at once", {}, "cannot be reached .* after 5 tries"),
        ("good", {"size": 7}, "offers 300000 bytes, not the 7"),
        ("good", {"sha256": "0" * 64}, "does not have the checksum"),
    ],
)
def test_a_failed_download_leaves_no_file(
    server: Server, tmp_path: Path, behaviour: str, known: dict, message: str
) -> None:
    server.behaviour = behaviour
    with pytest.raises(UserError, match=message):
        download(server.source(**known), tmp_path, pause=0)
    assert "data.bin" not in names(tmp_path)


@pytest.mark.parametrize(
    ("behaviour", "known", "message"),
    [
        ("416", {}, "answers 416 .*download the file by hand"),
        ("204", {}, "answers 204 .*download the file by hand"),
        ("empty", {}, "answers with an empty file"),
        ("no length", {}, "does not say how large data.bin is"),
        ("half without length", {"size": 300_000}, "the connection ended after 1000 of 300000 bytes.* after 5 tries"),
        ("longer length", {}, "the connection ended after 300000 of 300001 bytes.* after 5 tries"),
        ("longer length", {"size": 300_000}, "offers 300001 bytes, not the 300000"),
        ("shorter length", {"size": 300_000}, "offers 1000 bytes, not the 300000"),
        ("negative length", {}, "does not say how large data.bin is"),
        ("length of digits", {}, "does not say how large data.bin is"),
        ("length of no digit", {}, "does not say how large data.bin is"),
        ("other part", {}, "the server sent another part of the file.* after 5 tries"),
        ("endless", {"size": 300_000}, "sends more than the 300000 bytes of data.bin"),
        ("endless", {}, "does not say how large data.bin is"),
        ("endless chunks", {}, "sends more than the 1000000 bytes of data.bin"),
        ("bad chunk", {}, "cannot be reached .* after 5 tries"),
        ("bad redirect", {}, "leads to an invalid address"),
        ("redirect to a file", {}, "answers 302"),
        ("no http", {}, r"cannot be reached \(hello\) after 5 tries"),
        ("stall", {}, r"cannot be reached \(timed out\) after 5 tries; 100 bytes are kept"),
        ("drip", {}, r"cannot be reached \(fewer than 65536 bytes in 0.05 seconds\) after 5 tries"),
    ],
)
def test_a_hostile_server_is_a_sentence(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, behaviour: str, known: dict, message: str
) -> None:
    monkeypatch.setattr(download_module, "LARGEST", 1_000_000)
    monkeypatch.setattr(download_module, "TIMEOUT", 0.2 if behaviour == "stall" else 10.0)
    monkeypatch.setattr(download_module, "PATIENCE", 0.05)
    server.behaviour = behaviour
    with pytest.raises(UserError, match=message):
        download(server.source(**known), tmp_path, pause=0)
    assert "data.bin" not in names(tmp_path)
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= 1_000_000


def test_a_file_without_its_length_is_complete_at_its_known_size(server: Server, tmp_path: Path) -> None:
    server.behaviour = "no length"
    assert download(server.source(size=len(DATA)), tmp_path).read_bytes() == DATA


def test_an_empty_file_is_fetched_again(server: Server, tmp_path: Path) -> None:
    (tmp_path / "data.bin").touch()
    assert download(server.source(), tmp_path).read_bytes() == DATA


def test_places_that_cannot_be_written(server: Server, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "a" / "data.bin.part").mkdir(parents=True)
    (tmp_path / "b" / "data.bin").mkdir(parents=True)
    (tmp_path / "c").mkdir()
    os.mkfifo(tmp_path / "c" / "data.bin.part")
    for folder, message in {
        tmp_path / "file": "cannot write .*: File exists",
        tmp_path / "file" / "below": "cannot write .*: Not a directory",
        Path("/proc"): r"cannot write /proc/data\.bin\.part: |/proc has 0\.0 GB free",
        Path("/proc/new"): r"cannot write /proc/new/data\.bin: ",
        tmp_path / "a": r"data\.bin\.part exists and is not a regular file",
        tmp_path / "b": r"data\.bin exists and is not a regular file",
        tmp_path / "c": r"data\.bin\.part exists and is not a regular file",
    }.items():
        with pytest.raises(UserError, match=message):
            download(server.source(), folder, pause=0)


def test_an_unreachable_server_is_a_user_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot be reached"):
        download(Source("http://127.0.0.1:9/x", "x"), tmp_path, pause=0)


def test_a_folder_whose_path_is_too_long_is_one_sentence(tmp_path: Path) -> None:
    folder = tmp_path.joinpath(*["x" * 250] * 20)
    with pytest.raises(UserError, match=r"cannot write .*File name too long"):
        download(Source("http://localhost:1/a", "a"), folder)
    assert list(tmp_path.iterdir()) == []
