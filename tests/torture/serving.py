"""Hostile clients of ``semco serve``: photos that are bombs, connections that never end, many of them at once.

The server runs in a process of its own, which may open 200 files. While a case attacks it, /health has to answer within
a second, and the server and its processes have to stay below 1.5 GB. Afterwards it predicts a photo as before.
"""

from __future__ import annotations

import atexit
import http.client
import io
import json
import os
import resource
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from pathlib import Path
from random import Random

from PIL import Image

from torture.attack import Attack, Case, Failure
from torture.service import FORM, form, photos, prepare

FILES, SECONDS = 200, 2.0  # of the server: files that it may open, and its time limit
SLOWEST, MOST_BYTES = 1.0, 1_500_000_000  # of /health, of all processes of the server
MOST_LOG = 100_000  # bytes
FORMATS = ("PNG", "TIFF", "GIF", "BMP", "WEBP", "JPEG2000", "JPEG", "AVIF")
HEAD = b"POST /predict HTTP/1.1\r\nHost: 127.0.0.1\r\n"


class Served:
    """A server, and what it needs at the most."""

    def __init__(self, model: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 (open as long as the server)
        arguments = ["serve", str(model), "--port", str(self.port), "--timeout", str(SECONDS)]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "semco", *arguments],
            stderr=self._log,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (FILES, FILES)),
        )
        atexit.register(self.process.kill)
        self.slowest, self.bytes = 0.0, 0
        while not self._answers():
            time.sleep(0.05)

    def _answers(self) -> bool:
        try:
            return self.ask("GET", "/health")[0] == 200
        except OSError:
            return False

    def ask(self, method: str, path: str, body: bytes | None = None, kind: str = "image/png") -> tuple[int, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        try:
            connection.request(method, path, body, {"Content-Type": kind})
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()

    def connect(self, content: bytes) -> socket.socket:
        client = socket.create_connection(("127.0.0.1", self.port), timeout=20)
        with suppress(ConnectionError):
            client.sendall(content)
        return client

    def log(self) -> str:
        return os.pread(self._log.fileno(), 10 * MOST_LOG, 0).decode(errors="replace")

    @contextmanager
    def watched(self, name: str) -> Iterator[None]:
        """Ask for /health and measure the memory all the time, and check both at the end."""
        self.slowest, self.bytes, failures = 0.0, 0, []
        is_over = threading.Event()

        def watch() -> None:
            while not is_over.wait(0.02):
                began = time.monotonic()
                try:
                    status, _ = self.ask("GET", "/health")
                except (OSError, http.client.HTTPException) as error:
                    failures.append(repr(error))
                else:
                    failures.extend([] if status == 200 else [str(status)])
                self.slowest = max(self.slowest, time.monotonic() - began)
                self.bytes = max(self.bytes, bytes_of(self.process.pid))

        watching = threading.Thread(target=watch)
        watching.start()
        try:
            yield
        finally:
            is_over.set()
            watching.join()
        if failures:
            raise Failure(f"/health did not answer during {name}", str(failures[:5]))
        if self.slowest > SLOWEST:
            raise Failure(f"/health was slow during {name}", f"{self.slowest:.2f} s")
        if self.bytes > MOST_BYTES:
            raise Failure(f"the server took too much memory during {name}", f"{self.bytes / 1e6:.0f} MB")


def bytes_of(pid: int) -> int:
    """Return the memory of a process and of those that it started."""
    pages = 0
    for each in (pid, *children_of(pid)):
        with suppress(OSError):
            pages += int(Path(f"/proc/{each}/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def children_of(pid: int) -> list[int]:
    found = []
    with suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208
            with suppress(OSError):
                found += map(int, Path(f"/proc/{pid}/task/{task}/children").read_text().split())
    return found


@cache
def start(model: Path) -> Served:
    return Served(model)


def chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


@cache
def deep_png(side: int) -> bytes:
    """Return a black PNG image with 16 bits per pixel, made row by row."""
    packer = zlib.compressobj(9)
    row = bytes(1 + 2 * side)
    rows = b"".join(packer.compress(row) for _ in range(side)) + packer.flush()
    header = struct.pack(">IIBBBBB", side, side, 16, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


@cache
def plain(name: str, mode: str, side: int) -> bytes:
    """Return a black image of any size in a small file."""
    content = io.BytesIO()
    options = {"TIFF": {"compression": "tiff_deflate"}, "WEBP": {"lossless": True, "method": 0}, "AVIF": {"speed": 10}}
    Image.new(mode, (side, side)).save(content, name, **options.get(name, {}))
    return content.getvalue()


def bomb(random: Random) -> bytes:
    if random.random() < 0.25:
        return deep_png(random.choice((4000, 7000, 8900)))
    name = random.choice(FORMATS)
    mode = {"GIF": "P", "BMP": "1", "PNG": random.choice(("RGB", "LA", "1"))}.get(name, "RGB")
    return plain(name, mode, random.choice((3000, 7000)) if name == "AVIF" else random.choice((4000, 7000, 8900)))


def attack_bombs(served: Served, random: Random) -> str:
    """Send four bombs at once, and photos among them."""
    bodies = [bomb(random) for _ in range(4)] + [photos()[1]] * 4
    statuses: list[int] = []

    def send(body: bytes) -> None:
        statuses.append(served.ask("POST", "/predict", body)[0])

    clients = [threading.Thread(target=send, args=(body,)) for body in bodies]
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    if len(statuses) < len(bodies) or any(status not in (200, 408, 415) for status in statuses):
        raise Failure("an answer of another kind to bombs", str(statuses))
    return "bombs"


def attack_crowd(served: Served, random: Random) -> str:
    """Open more connections than the server may have files; none of them ends."""
    beginnings = (
        b"",
        b"POST /pre",
        HEAD + b"Content-Length: 1000000\r\n\r\nx",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\nab",
        b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000\r\n\r\n",
        HEAD + b"Expect: 100-continue\r\nContent-Length: 1000\r\n\r\n",
    )
    with ExitStack() as clients:
        for _ in range(random.randint(250, 500)):
            clients.enter_context(served.connect(random.choice(beginnings)))
        time.sleep(SECONDS / 4)
    return "crowd"


def check_closed(client: socket.socket, more: bytes) -> None:
    """Send a little now and then; fail if the connection lives on."""
    end = time.monotonic() + 2 * SECONDS + 2
    try:
        while time.monotonic() < end:
            client.sendall(more)
            time.sleep(0.1)
    except OSError:
        return
    raise Failure("a connection was not given up", repr(more[:40]))


def check_ended(client: socket.socket) -> None:
    """Read what the server has sent; fail if it has not closed the connection."""
    client.settimeout(1)
    try:
        while client.recv(1 << 20):
            pass
    except TimeoutError:
        raise Failure("a connection was not given up", "its requests were sent at once") from None
    except ConnectionError:
        pass


def attack_dribble(served: Served, random: Random) -> str:
    """Send requests that never end, a byte or a chunk at a time."""
    head, more = random.choice(
        (
            (HEAD + b"Content-Length: 1000000\r\n\r\n", b"x"),
            (HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n"),
            (HEAD, b"A: b\r\n"),
            (b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000000\r\n\r\n", b"x"),
            (b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n"),
            (b"POST /health HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000000\r\n\r\n", b"x"),
        )
    )
    with ExitStack() as stack:
        clients = [stack.enter_context(served.connect(head)) for _ in range(10)]
        for client in clients:
            check_closed(client, more)
    return "dribble"


def attack_pipeline(served: Served, random: Random) -> str:
    """Send 200 requests on each of many connections and read no answer; all connections have to be given up."""
    target = random.choice((b"GET / ", b"GET /health ", b"GET /nothing ", b"GET /v2 "))
    padding = b"x" * random.choice((0, 0, 900, 3000))
    content = (target + b"HTTP/1.1\r\nHost: 127.0.0.1\r\nA: " + padding + b"\r\n\r\n") * 200
    with ExitStack() as stack:
        clients = [stack.enter_context(served.connect(b"")) for _ in range(random.randint(50, 100))]
        for client in clients:
            client.setblocking(False)  # what the server does not read is not sent
            with suppress(OSError):
                client.send(content)
        time.sleep(SECONDS + 1)
        for client in clients:
            check_ended(client)
    return "pipeline"


def attack_bodies(served: Served, random: Random) -> str:
    """Send large bodies that are slow to parse: tiny chunks, or forms that are nearly boundaries."""
    count = random.randint(1, 4)
    if random.random() < 0.5:
        content = HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + b"1\r\nx\r\n" * 200_000
    else:
        body = form(random.choice((b"\r\n--", b"\r", b"\r\n", b"-", b"\r\n--e")) * 1_000_000)
        content = HEAD + f"Content-Type: {FORM}\r\nContent-Length: {len(body) + 1}\r\n\r\n".encode() + body
    with ExitStack() as clients:

        def send() -> None:
            client = clients.enter_context(served.connect(content))
            with suppress(ConnectionError):
                while client.recv(65536):
                    pass

        threads = [threading.Thread(target=send) for _ in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return "bodies"


ATTACKS: tuple[Callable[[Served, Random], str], ...] = (
    attack_bombs,
    attack_crowd,
    attack_dribble,
    attack_pipeline,
    attack_bodies,
)


def attack_server(case: Case) -> str:
    served, random = start(case.originals), case.random
    attack = random.choice(ATTACKS)
    with served.watched(attack.__name__):
        ending = attack(served, random)
    for _ in range(5):  # the last photos of the attack may still be decoded
        status, answer = served.ask("POST", "/predict", photos()[0])
        if status != 408:
            break
    if status != 200 or list(json.loads(answer)) != ["predictions"]:
        raise Failure("a photo was refused afterwards", f"{status} {answer[:500]!r}")
    if "Traceback" in (log := served.log()):
        raise Failure("a traceback in the log", log[-3000:])
    if len(log) > MOST_LOG:
        raise Failure("a long log", f"{len(log):,} characters")
    return ending


ATTACK = Attack("service", cases=100, minutes=4, case=attack_server, prepare=prepare, limit=60.0, memory=None)
