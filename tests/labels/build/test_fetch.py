from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from semco.errors import UserError
from semco.labels.build import fetch as fetch_module
from semco.labels.build.fetch import SOURCES, Source, download, fetch

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


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setattr(fetch_module, "CHUNK", 4096)
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


def test_an_unreachable_server_is_a_user_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot be reached"):
        download(Source("http://127.0.0.1:9/x", "x"), tmp_path, pause=0)


def test_the_error_for_an_unknown_file_lists_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"glove, glove-6b, numberbatch, word2vec"):
        fetch("glov", tmp_path)


def test_every_source_is_an_official_address_over_https() -> None:
    assert {"glove", "word2vec", "conceptnet", "numberbatch"} <= set(SOURCES)
    assert all(source.url.startswith("https://") and source.licence for source in SOURCES.values())
