"""Connections are given up: those that are answered early, that never end, and those that are too many."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import resource
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
from uvicorn.protocols.http.h11_impl import H11Protocol

from semco.export import server
from semco.export.server import AsciiJSONResponse

GET = b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n"
POST = b"POST /predict HTTP/1.1\r\nHost: 127.0.0.1\r\n"
LARGE = 30_000_000


class App:
    """Answers /health at once without reading, /large with many bytes, /slow when it is told to, others when read."""

    def __init__(self) -> None:
        self.goes_on = False
        self.disconnected = threading.Event()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            for name in ("startup", "shutdown"):
                await receive()
                await send({"type": f"lifespan.{name}.complete"})
            return
        if scope["path"] == "/predict":
            while (message := await receive()).get("more_body"):
                pass
            if message["type"] == "http.disconnect":
                self.disconnected.set()
        if scope["path"] == "/slow":
            while not self.goes_on:
                await asyncio.sleep(0.01)
        body = b"x" * LARGE if scope["path"] == "/large" else b"{}"
        headers = [(b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})


class Running:
    """A server in a thread."""

    def __init__(self, seconds: float) -> None:
        self.app = App()
        self.server = server.make_server(self.app, seconds)
        listening = socket.create_server(("127.0.0.1", 0))
        self.port = listening.getsockname()[1]
        self._thread = threading.Thread(target=self.server.run, args=([listening],), daemon=True)
        self._thread.start()
        self.wait(lambda: self.server.started)

    def close(self) -> None:
        self.app.goes_on = self.server.should_exit = True
        self._thread.join(30)
        assert not self._thread.is_alive()

    def wait(self, is_true: Callable[[], bool], seconds: float = 20.0) -> None:
        end = time.monotonic() + seconds
        while not is_true():
            assert time.monotonic() < end
            time.sleep(0.005)

    def wait_for_connections(self, count: int) -> None:
        self.wait(lambda: len(self.server.server_state.connections) == count)

    def connect(self, content: bytes = b"") -> socket.socket:
        found = socket.create_connection(("127.0.0.1", self.port), timeout=20)
        found.sendall(content)
        return found


@contextmanager
def running(seconds: float = 20.0) -> Iterator[Running]:
    found = Running(seconds)
    try:
        yield found
    finally:
        found.close()


def read_all(client: socket.socket) -> bytes:
    return b"".join(iter(lambda: client.recv(65536), b""))


@pytest.mark.parametrize("body", [b"Content-Length: 1000000\r\n\r\n", b"Transfer-Encoding: chunked\r\n\r\n"])
def test_an_answer_before_the_end_of_its_request_ends_the_connection(
    body: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "LINGER", 0.1)
    with running() as started, started.connect(GET + body) as client:
        answer = read_all(client)  # does not return before the server has ended its side
        assert b"200 OK" in answer
        assert b"connection: close" in answer
        client.sendall(b"1")
        started.wait_for_connections(0)


def test_the_client_can_read_an_answer_while_it_sends() -> None:
    with running() as started, started.connect(GET + b"Content-Length: 5000000\r\n\r\n") as client:
        client.sendall(b"x" * 5_000_000)
        assert read_all(client).endswith(b"{}")


def test_requests_that_are_whole_keep_the_connection() -> None:
    with running() as started, started.connect(POST + b"Content-Length: 2\r\n\r\nab") as client:
        while client.recv(65536).count(b"200 OK") < 1:
            pass
        client.sendall(GET + b"Connection: close\r\n\r\n")
        assert b"200 OK" in read_all(client)


PADDED = GET + b"A: " + b"x" * (server.READ_CHUNKED - len(GET) - 7) + b"\r\n\r\n"  # as long as what is read


@pytest.mark.parametrize("request_bytes", [GET + b"\r\n", POST + b"Content-Length: 2\r\n\r\nab", PADDED])
def test_requests_ahead_of_the_answer_are_not_worked_on(request_bytes: bytes) -> None:
    with running() as started, started.connect(request_bytes * 200) as client:
        answers = read_all(client)
        assert answers.count(b"200 OK") < 20  # nearly always 1, but 200 padded ones may fit by chance
        assert b"connection: close" in answers
        started.wait_for_connections(0)


def test_a_request_that_arrives_during_the_answer_ends_the_connection() -> None:
    with running() as started, started.connect(b"GET /slow HTTP/1.1\r\nHost: a\r\n\r\n") as client:
        started.wait(lambda: len(started.server.server_state.tasks) == 1)
        client.sendall(GET + b"\r\n")
        time.sleep(0.2)
        started.app.goes_on = True
        assert read_all(client).count(b"200 OK") == 1


def test_answers_to_requests_ahead_that_are_not_taken_are_given_up() -> None:
    with running(seconds=0.2) as started, started.connect(b"GET /large HTTP/1.1\r\nHost: a\r\n\r\n" * 20):
        started.wait_for_connections(1)
        started.wait_for_connections(0)


def test_a_large_answer_before_the_end_of_its_request_is_taken_slowly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "LINGER", 0.05)
    with (
        running() as started,
        started.connect(b"GET /large HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n") as client,
    ):
        time.sleep(0.3)
        assert len(read_all(client)) > LARGE


def dribble(client: socket.socket) -> None:
    for _ in range(1000):
        client.sendall(b"x")
        time.sleep(0.02)


def test_a_body_that_dribbles_is_given_up() -> None:
    with running(seconds=0.3) as started, started.connect(POST + b"Content-Length: 100000\r\n\r\n") as client:
        with pytest.raises(OSError):  # noqa: PT011 (a reset connection or a broken pipe)
            dribble(client)
        assert started.app.disconnected.wait(20)
        started.wait_for_connections(0)


def test_an_answer_that_is_not_taken_is_given_up() -> None:
    with running(seconds=0.2) as started, started.connect(b"GET /large HTTP/1.1\r\nHost: a\r\n\r\n"):
        started.wait_for_connections(1)
        started.wait_for_connections(0)


def test_the_time_of_the_answer_is_not_that_of_the_request() -> None:
    with running(seconds=0.1) as started, started.connect(b"GET /slow HTTP/1.1\r\nHost: a\r\n\r\n") as client:
        started.wait(lambda: len(started.server.server_state.tasks) == 1)
        time.sleep(0.3)
        started.app.goes_on = True
        assert b"200 OK" in client.recv(65536)


def test_the_oldest_connection_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "most_connections", lambda: 3)
    with running() as started, ExitStack() as clients:
        idle = []
        for _ in range(5):
            idle.append(clients.enter_context(started.connect(POST + b"Content-Length: 9\r\n\r\nh")))
            started.wait_for_connections(min(3, len(idle)))
        with started.connect(GET + b"Connection: close\r\n\r\n") as client:
            assert b"200 OK" in read_all(client)
        assert [each.recv(1) for each in idle[:3]] == [b""] * 3  # they are closed
        idle[-1].sendall(b"ello wor")
        assert b"200 OK" in idle[-1].recv(65536)


def test_while_all_are_answered_another_one_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "most_connections", lambda: 1)
    with running() as started, started.connect(b"GET /slow HTTP/1.1\r\nHost: a\r\n\r\n"):
        started.wait(lambda: len(started.server.server_state.tasks) == 1)
        for _ in range(3):
            with started.connect(GET + b"\r\n") as client:
                head, _, body = read_all(client).partition(b"\r\n\r\n")
                assert head.startswith(b"HTTP/1.1 503 ")
                assert json.loads(body) == {"error": "there are too many connections; try again in a moment."}


@pytest.mark.parametrize(
    ("head", "most"), [(b"Content-Length: 60005", server.READ), (b"Transfer-Encoding: chunked", 1024)]
)
def test_chunks_are_read_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch, head: bytes, most: int) -> None:
    """A chunk of one byte takes as long as a large one: many connections with such chunks would hold up the others."""
    sizes, received = [], H11Protocol.data_received

    def receive(self: H11Protocol, data: bytes) -> None:
        sizes.append(len(data))
        received(self, data)

    monkeypatch.setattr(H11Protocol, "data_received", receive)
    request = POST + b"Connection: close\r\n" + head + b"\r\n\r\n"
    with running() as started, started.connect(request) as client:
        started.wait(lambda: sizes == [len(request)])
        client.sendall(b"1\r\nx\r\n" * 10_000 + b"0\r\n\r\n")
        assert read_all(client).startswith(b"HTTP/1.1 200 ")
    assert max(sizes) == most


def test_one_connection_with_chunks_is_read_per_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    turns, received, run_once = [0], H11Protocol.data_received, asyncio.BaseEventLoop._run_once  # type: ignore[attr-defined]
    read: list[tuple[int, int]] = []  # the turn and the connection

    def receive(self: H11Protocol, data: bytes) -> None:
        if self.headers:
            read.append((turns[0], id(self)))
        received(self, data)

    def turn(self: asyncio.BaseEventLoop) -> None:
        turns[0] += 1
        run_once(self)

    monkeypatch.setattr(H11Protocol, "data_received", receive)
    monkeypatch.setattr(asyncio.BaseEventLoop, "_run_once", turn)
    body = POST + b"Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1\r\nx\r\n" * 3000 + b"0\r\n\r\n"
    with running() as started, ExitStack() as clients:
        sent = [clients.enter_context(started.connect(body)) for _ in range(10)]
        assert all(read_all(each).startswith(b"HTTP/1.1 200 ") for each in sent)
    assert len({client for _, client in read}) == 10
    assert len({number for number, _ in read}) == len(read)


def test_the_limit_leaves_files_for_other_things(monkeypatch: pytest.MonkeyPatch) -> None:
    for limit, low, high in ((10, 1, 1), (400, 50, 340), (resource.RLIM_INFINITY, 1000, 1000), (10**6, 1000, 1000)):
        monkeypatch.setattr(resource, "getrlimit", lambda _kind, limit=limit: (limit, limit))
        assert low <= server.most_connections() <= high


CROWD = """
import resource, socket, threading, time
resource.setrlimit(resource.RLIMIT_NOFILE, (120, 120))
from semco.export.server import make_server
from tests.export.test_connection import App
listening = socket.create_server(("127.0.0.1", 0))
server = make_server(App(), 20.0)
threading.Thread(target=server.run, args=([listening],), daemon=True).start()
print(listening.getsockname()[1], flush=True)
input()
"""
INTERRUPTED = """
import os, signal, socket, threading, time
from semco.export.server import make_server
from tests.export.test_connection import App
server = make_server(App(), 20.0)
def interrupt():
    while not server.started:
        time.sleep(0.01)
    with socket.create_connection(address) as client:
        client.sendall(b"GET /slow HTTP/1.1\\r\\nHost: a\\r\\n\\r\\n")
        while not server.server_state.tasks:
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)
        while not server.should_exit:  # two signals that come too fast are one
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)
threading.Thread(target=interrupt).start()
listening = socket.create_server(("127.0.0.1", 0))
address = listening.getsockname()
try:
    server.run([listening])
except KeyboardInterrupt:
    print("interrupted")
"""


def test_two_interruptions_end_it_without_a_traceback() -> None:
    """The second one cuts off the request that is being answered."""
    done = subprocess.run([sys.executable, "-c", INTERRUPTED], capture_output=True, text=True, check=True, timeout=60)
    assert (done.stdout, done.stderr) == ("interrupted\n", "")


INTERRUPTED_EARLY = """
import asyncio, os, signal, socket
from semco.export.server import make_server
from tests.export.test_connection import App
made = asyncio.SelectorEventLoop.__init__
def make(self, *arguments):
    made(self, *arguments)
    os.kill(os.getpid(), signal.SIGINT)
asyncio.SelectorEventLoop.__init__ = make
try:
    make_server(App(), 20.0).run([socket.create_server(("127.0.0.1", 0))])
except KeyboardInterrupt:
    print("interrupted")
"""


def test_an_interruption_before_it_has_started_leaves_no_coroutine() -> None:
    command = [sys.executable, "-c", INTERRUPTED_EARLY]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert (done.stdout, done.stderr) == ("interrupted\n", "")


def test_a_crowd_with_few_file_descriptors() -> None:
    """200 connections, of which each sends half a request, to a process that may open 120 files."""
    command = [sys.executable, "-c", CROWD]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, text=True, **pipes) as process, ExitStack() as clients:  # type: ignore[call-overload]
        port = int(process.stdout.readline())
        for _ in range(200):
            client = clients.enter_context(socket.create_connection(("127.0.0.1", port), timeout=20))
            client.sendall(POST + b"Content-Length: 9\r\n\r\nh")
        began = time.monotonic()
        with socket.create_connection(("127.0.0.1", port), timeout=20) as client:
            client.sendall(GET + b"Connection: close\r\n\r\n")
            assert b"200 OK" in read_all(client)
        assert time.monotonic() - began < 1
        log = process.communicate("\n")[1]
    assert "Traceback" not in log
    assert 1 <= log.count("\n") <= server.MOST_LINES, log


def test_few_lines_of_each_kind_are_logged(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr(server.time, "monotonic", lambda: now)
    few = server.FewLines()

    def line(text: str) -> logging.LogRecord:
        return logging.LogRecord("semco", logging.WARNING, "", 0, text, (1,), None)

    assert [few.filter(line("bad %d")) for _ in range(1005)] == [True] * server.MOST_LINES + [False] * 1000
    assert few.filter(line("other %d"))
    now += server.SECONDS + 1
    last = line("bad %d")
    assert few.filter(last)
    assert last.getMessage() == "bad 1 (1,000 such lines were left out)"


@pytest.mark.parametrize("name", ["café", os.fsdecode(b"caf\xe9"), "half \ud83d", "😀", "a\x00b"])
def test_every_name_comes_back(name: str) -> None:
    response = AsciiJSONResponse({"error": name}, 400)
    assert (response.status_code, response.media_type) == (400, "application/json")
    assert json.loads(response.body) == {"error": name}
