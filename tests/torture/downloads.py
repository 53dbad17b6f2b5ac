"""Hostile HTTP servers: a download gives the whole file, or one sentence and no file under its name."""

from __future__ import annotations

import hashlib
import os
import socket
import threading
import time
from contextlib import closing
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from semco.download import Source, download
from semco.errors import UserError
from torture.attack import Attack, Case, Failure
from torture.mutations import damage

DATA = Random(0).randbytes(200_000)
DIGEST = hashlib.sha256(DATA).hexdigest()
LENGTH = b"Content-Length: %d\r\n" % len(DATA)
PATIENCE = 0.3  # seconds; replaces the time-out of the package, so that cases are short
ODD_LENGTHS = (
    b"-1",
    b"x",
    b"",
    b"1e6",
    b"9" * 30,
    b"200000, 200000",
    b"0x30d40",
    b"200001",
    b"\xb2",
    b" 200000 ",
    b"+5",
)
STATUS_LINES = (
    b"", b"\r\n", b"HTTP/9.9 200 OK\r\n", b"HTTP/1.1 999 What\r\n", b"HTTP/1.1 abc\r\n", b"HTTP/1.1 -1 No\r\n",
    b"SSH-2.0\r\n", b"HTTP/1.1 200\r\n", b"\x00" * 1000, b"a" * 100_000, b"HTTP/1.1 100 Continue\r\n\r\n" * 5,
    b"HTTP/0.9\r\n",
)  # fmt: skip
CODES = (
    100,
    201,
    203,
    204,
    205,
    206,
    300,
    301,
    302,
    304,
    307,
    400,
    401,
    403,
    404,
    407,
    408,
    410,
    416,
    418,
    429,
    500,
    503,
    599,
)
REDIRECTS = (
    b"/",
    b"/data",
    b"file:///etc/passwd",
    b"ftp://127.0.0.1:9/x",
    b"",
    b"http://",
    b"http://[",
    b"data:,x",
    b"\xff",
    b"//x:y/",
)


class Server:
    """Answers every connection with the same script of bytes and pauses."""

    def __init__(self, script: list[bytes | float | str]) -> None:
        self._script = script
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.address = f"http://127.0.0.1:{self._socket.getsockname()[1]}/data"
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with closing(connection):
            try:
                connection.recv(65536)
                for part in self._script:
                    self._play(connection, part)
            except OSError:  # the client has closed the connection
                return

    def _play(self, connection: socket.socket, part: bytes | float | str) -> None:
        if isinstance(part, bytes):
            connection.sendall(part)
        elif isinstance(part, float):
            time.sleep(part)
        elif part == "reset":
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
        elif part == "endless":
            while True:
                connection.sendall(bytes(65536))
                time.sleep(0.01)

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join()


@cache
def be_impatient() -> None:
    """Make every connection of this process, which is a worker of this attack alone, give up after a short time."""
    original = socket.create_connection

    def impatient(address: Any, *arguments: Any, **named: Any) -> socket.socket:
        named.pop("timeout", None)
        return original(address, PATIENCE, *arguments[1:], **named)

    socket.create_connection = impatient  # type: ignore[assignment]


def case(case: Case) -> str:
    be_impatient()
    random = case.random
    script, whole_is_knowable = make_script(random)
    known = random.choice(({}, {"size": len(DATA)}, {"size": len(DATA), "sha256": DIGEST}, {"sha256": DIGEST}))
    folder = prepare_folder(random, case.folder)
    if "endless" in script:
        known = {"size": len(DATA)}  # without a size nobody can know that it does not end
    server = Server(script)
    try:
        path = download(Source(server.address, "data.bin", **known), folder, pause=0)
    except UserError:
        if is_file(folder / "data.bin"):
            raise Failure("a refused download left a file under its name") from None
        raise
    finally:
        server.close()
    found = path.read_bytes()
    if len(found) != len(DATA) and (known or whole_is_knowable):
        raise Failure("an incomplete download was accepted", f"{len(found)} of {len(DATA)} bytes, known: {list(known)}")
    if found != DATA and ("sha256" in known or whole_is_knowable):
        raise Failure("a download with other bytes was accepted", f"known: {list(known)}")
    return "downloaded"


def is_file(path: Path) -> bool:
    """Return whether this is a file; `Path.is_file` raises for a path that is too long."""
    return os.path.isfile(path)  # noqa: PTH113


def prepare_folder(random: Random, root: Path) -> Path:
    """Return the folder to download to, in a state that is sometimes odd."""
    folder = root / "files"
    way = random.choice(
        ("new",) * 6 + ("part", "long part", "file", "proc", "folder", "part folder", "dangling", "deep")
    )
    if way == "file":
        folder.write_bytes(b"")
    elif way == "proc":
        return Path("/proc/nothing")
    elif way == "deep":
        return root.joinpath(*["x" * 250] * 20)
    elif way != "new":
        folder.mkdir()
        target = folder / ("data.bin" if way in ("folder", "dangling") else "data.bin.part")
        if way.endswith("folder"):
            target.mkdir()
        elif way == "dangling":
            target.symlink_to("nothing/nothing")
        else:
            target.write_bytes(DATA[: random.randrange(len(DATA))] if way == "part" else DATA + b"more")
    return folder


def make_script(random: Random) -> tuple[list[bytes | float | str], bool]:
    """Return what the server sends, and whether the client can know by the answer alone what the whole file is."""
    ok, cut = b"HTTP/1.1 200 OK\r\n", random.randrange(len(DATA))
    scripts: tuple[tuple[list[bytes | float | str], bool], ...] = (
        ([ok, LENGTH, b"\r\n", DATA], True),
        ([ok, LENGTH, b"\r\n", DATA[:cut]], True),
        ([ok, LENGTH, b"\r\n", DATA[:cut], "reset"], True),
        ([ok, LENGTH, b"\r\n", DATA[:cut], 5.0], True),
        ([5.0], True),
        (["reset"], True),
        ([ok, 5.0], True),
        ([ok, b"\r\n", DATA], True),
        ([ok, b"\r\n", DATA[:cut]], False),  # neither a length nor an end mark: a short file looks whole
        ([ok, b"\r\n", "endless"], True),
        ([ok, LENGTH, b"\r\n", "endless"], False),  # as long as announced, but other bytes
        ([ok, b"X: ", "endless"], True),
        ([ok, b"Content-Length: ", random.choice(ODD_LENGTHS), b"\r\n\r\n", DATA], False),
        ([ok, LENGTH, LENGTH.replace(b"2", b"3"), b"\r\n", DATA], True),
        ([ok, b"Transfer-Encoding: chunked\r\n\r\n30d40\r\n", DATA, b"\r\n0\r\n\r\n"], True),
        ([ok, b"Transfer-Encoding: chunked\r\n\r\n30d40\r\n", DATA[:cut]], True),
        ([ok, b"Transfer-Encoding: chunked\r\n\r\nzz\r\n", DATA], True),
        ([ok, b"Transfer-Encoding: chunked\r\n\r\n-5\r\n", DATA], True),
        ([ok, b"Content-Length: 0\r\n\r\n"], True),
        ([ok, b"\r\n"], True),
        ([random.choice(STATUS_LINES), LENGTH, b"\r\n", DATA], False),
        ([b"HTTP/1.1 %d X\r\n" % random.choice(CODES), LENGTH, b"\r\n", DATA], False),
        ([b"HTTP/1.1 %d X\r\n" % random.choice(CODES), b"\r\n"], True),
        ([b"HTTP/1.1 204 No Content\r\n\r\n"], True),
        (
            [
                b"HTTP/1.1 416 Range\r\n",
                random.choice((b"", b"Content-Range: bytes */0\r\n", b"Content-Range: x\r\n")),
                b"\r\n",
            ],
            True,
        ),
        ([b"HTTP/1.1 206 Part\r\nContent-Range: bytes 7-9/%d\r\n" % len(DATA), LENGTH, b"\r\n", DATA], False),
        ([b"HTTP/1.1 302 Found\r\nLocation: ", random.choice(REDIRECTS), b"\r\nContent-Length: 0\r\n\r\n"], True),
        ([ok, b"Content-Type: text/html\r\n", LENGTH, b"\r\n", DATA], False),
        ([ok, b"".join(b"X-%d: y\r\n" % i for i in range(500)), LENGTH, b"\r\n", DATA], True),
        ([damage(random, ok + b"Content-Type: a\r\n" + LENGTH + b"\r\n" + DATA[:100]), DATA[100:]], False),
        ([b"".join(bytes([byte]) for byte in ok), 0.05, LENGTH, 0.05, b"\r\n", DATA[:5], 0.05, DATA[5:]], True),
    )
    return random.choice(scripts)


ATTACK = Attack("downloads", cases=500, minutes=1, case=case, limit=12)
