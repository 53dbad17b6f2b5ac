"""The server of the service and of the Studio; needs uvicorn."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import random
import socket
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from http import HTTPStatus
from typing import Any

import h11
import uvicorn
from starlette.responses import JSONResponse
from uvicorn.protocols.http.h11_impl import H11Protocol


class AsciiJSONResponse(JSONResponse):
    """JSON in ASCII, which can hold every name of a file or class, also one that UTF-8 cannot encode."""

    def render(self, content: Any) -> bytes:
        return json.dumps(content, allow_nan=False, separators=(",", ":")).encode("ascii")


CONNECTIONS = 1000  # at the same time, if the system lets the process open so many files
RESERVED = 64  # open files for everything else: photos, processes, and connections that are being accepted or closed
LINGER = 1.0  # seconds in which the rest of a request is discarded, so that the client can read the answer
READ = 1 << 12  # bytes that are read at a time, so that many connections with slow bytes do not hold up the others
READ_CHUNKED = 1 << 10  # the same for a body in chunks, of which each may hold one byte
CLOSE = (b"connection", b"close")


def head_size() -> int:
    """Return how many bytes to read next outside of bodies: a number that nobody can make their requests fit to."""
    return READ_CHUNKED + random.randrange(READ_CHUNKED)


def most_connections() -> int:
    """Return how many connections this process can have at the same time and still open other files."""
    try:
        import resource
    except ImportError:  # not a POSIX system
        return CONNECTIONS
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if files == resource.RLIM_INFINITY:
        return CONNECTIONS
    return max(1, min(CONNECTIONS, files - len(os.listdir("/dev/fd")) - RESERVED))  # noqa: PTH208


class Turns:
    """Lets one of the waiting connections continue per turn of the event loop.

    A chunk of one byte takes as long as a large one. If all connections with bodies in chunks were read in each turn,
    the others would have to wait for all of them.
    """

    def __init__(self) -> None:
        self._waiting: deque[Callable[[], None]] = deque()

    def wait(self, loop: asyncio.AbstractEventLoop, go_on: Callable[[], None]) -> None:
        """Call ``go_on`` when it is its turn."""
        self._waiting.append(go_on)
        if len(self._waiting) == 1:
            loop.call_soon(self._next, loop)

    def _next(self, loop: asyncio.AbstractEventLoop) -> None:
        self._waiting.popleft()()
        if self._waiting:
            loop.call_soon(self._next, loop)


class TimedConnection(H11Protocol):
    """A connection that is given up if the client does not send a whole request, or take the answer, in time.

    uvicorn waits forever: clients that send half a request could use up all connections. How long the answer may take
    is limited by `semco.export.service.Limits`. A request that is not HTTP gets 400, one that is late 408. If there are
    too many connections, the one that has waited longest for its client is closed. If a client sends the next request
    before it has the answer (pipelining), the connection is closed after this answer: others would wait for thousands.
    """

    def __init__(self, *args: Any, seconds: float, most: int, turns: Turns, **named: Any) -> None:
        super().__init__(*args, **named)
        self._seconds, self._most, self._turns = seconds, most, turns
        self._is_ahead = False  # whether the client has sent more than the request that is being answered
        self._timer: asyncio.TimerHandle | None = None  # runs while the connection waits for the client

    def connection_made(self, transport: Any) -> None:
        self._socket = transport
        self._socket.max_size = head_size()
        super().connection_made(PoliteTransport(transport, self._end))  # type: ignore[arg-type]
        self._watch()
        if len(self.connections) > self._most:
            self.logger.warning("more than %d connections: those that wait for a request are closed", self._most)
            self._make_room()

    def _make_room(self) -> None:
        """Close the connections that have waited longest for their clients, or else this one."""
        waited_for = [each for each in self.connections if isinstance(each, TimedConnection) and each._timer]
        for each in sorted(waited_for, key=TimedConnection._deadline)[: len(self.connections) - self._most]:
            if each is self:
                self._refuse(HTTPStatus.SERVICE_UNAVAILABLE, "there are too many connections; try again in a moment.")
            else:
                self.connections.discard(each)
                each.transport.abort()

    def _deadline(self) -> float:
        return self._timer.when() if self._timer else 0.0

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return  # the rest of a request that has been answered
        super().data_received(data)
        self._refuse_pipelining()
        self._take_turns()
        self._watch()

    def _refuse_pipelining(self) -> None:
        if self._is_ahead or self.conn.their_state not in (h11.DONE, h11.MUST_CLOSE) or not self.conn.trailing_data[0]:
            return
        self._is_ahead, self.cycle.keep_alive = True, False
        self.headers.append(CLOSE)  # as if the client had asked for it, so that the answer says it too

    def _take_turns(self) -> None:
        """Read the rest of a body in chunks when it is this connection's turn."""
        if self.conn.their_state is not h11.SEND_BODY:
            self._socket.max_size = head_size()
            return
        is_chunked = any(name == b"transfer-encoding" for name, _ in self.headers)
        self._socket.max_size = READ_CHUNKED if is_chunked else READ
        if is_chunked and not self.flow.read_paused:
            self._socket.pause_reading()
            self._turns.wait(self.loop, self._go_on)

    def _go_on(self) -> None:
        if not self.flow.read_paused and not self._socket.is_closing():
            self._socket.resume_reading()

    def on_response_complete(self) -> None:
        if not self.transport.is_closing():
            self._stop_timer()  # the next request has its own time
        super().on_response_complete()
        self._watch()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._watch()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._stop_timer()

    def _watch(self) -> None:
        """Start the timer when the connection waits for the client, and stop it otherwise."""
        is_request_whole = self.conn.their_state not in (h11.IDLE, h11.SEND_BODY)
        if is_request_whole and not self.flow.write_paused and not self.transport.is_closing():
            self._stop_timer()
        elif self._timer is None:
            self._start_timer(self._seconds)

    def _start_timer(self, seconds: float) -> None:
        self._stop_timer()
        self._timer = self.loop.call_later(seconds, self._give_up)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _give_up(self) -> None:
        self._timer = None
        if self.transport.is_closing() or self.transport.get_write_buffer_size():
            self.transport.abort()
        else:
            self._refuse(HTTPStatus.REQUEST_TIMEOUT, f"the request did not arrive within {self._seconds:g} seconds.")

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 (uvicorn passes it)
        """Answer bytes that are not HTTP."""
        self._refuse(HTTPStatus.BAD_REQUEST, "the request is not valid HTTP.")

    def _refuse(self, status: HTTPStatus, sentence: str) -> None:
        """Close the connection; before that, send a status and a sentence, unless another answer has begun."""
        if self.transport.is_closing():
            return
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            body = json.dumps({"error": sentence})
            self.transport.write(
                f"HTTP/1.1 {status} {status.phrase}\r\ncontent-type: application/json\r\n"
                f"content-length: {len(body)}\r\nconnection: close\r\n\r\n{body}".encode()
            )
        self.transport.close()

    def _end(self, transport: asyncio.Transport) -> None:
        """Close the connection; if the request is incomplete, wait first so that the client can read the answer.

        A socket that is closed while bytes arrive discards the answer that the client has not read yet.
        """
        if self._is_ahead or self.conn.their_state in (h11.IDLE, h11.SEND_BODY, h11.ERROR):
            if self.cycle is not None and not self.cycle.response_complete:
                self.cycle.disconnected = True  # nobody will read what the application answers
                self.cycle.message_event.set()
            self._start_timer(self._seconds if transport.get_write_buffer_size() else min(LINGER, self._seconds))
            self.flow.resume_reading()
            try:
                transport.write_eof()
            except OSError:  # the client is gone
                transport.abort()
        else:
            transport.close()
            self._watch()


class PoliteTransport:
    """A transport whose connection decides how it is closed."""

    def __init__(self, transport: asyncio.Transport, end: Callable[[asyncio.Transport], None]) -> None:
        self._transport, self._end, self._is_ending = transport, end, False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, content: bytes) -> None:
        if not self.is_closing():
            self._transport.write(content)

    def is_closing(self) -> bool:
        return self._is_ending or self._transport.is_closing()

    def close(self) -> None:
        if not self.is_closing():
            self._is_ending = True
            self._end(self._transport)


def close_unread(app: Any) -> Any:
    """Return an ASGI application whose answer ends the connection if it is sent before the whole request was read."""

    async def answer(scope: Any, receive: Any, send: Any) -> None:
        names = {name for name, _ in scope.get("headers", ())}
        is_read = not names & {b"content-length", b"transfer-encoding"}

        async def receive_part() -> Any:
            nonlocal is_read
            message = await receive()
            is_read = is_read or not message.get("more_body", False)
            return message

        async def send_part(message: Any) -> None:
            if message["type"] == "http.response.start" and not is_read:
                message = {**message, "headers": [*message.get("headers", ()), CLOSE]}
            await send(message)

        await app(scope, receive_part, send_part)

    return answer


BACKLOG = 2048  # connections that the system keeps until they are accepted
# Connections that are accepted at a time. asyncio accepts as many as it can before it handles any of them: many
# at once would use all file descriptors of the process, and the server would accept nothing for a second.
ACCEPTED = 8
# Lines of each kind in the log per number of seconds; otherwise bad requests could fill the log.
MOST_LINES, SECONDS = 5, 60.0


class Server(uvicorn.Server):
    """A server that accepts a few connections at a time, and ends without a message when it is interrupted."""

    def run(self, sockets: list[socket.socket] | None = None) -> None:
        with self.capture_signals():  # uvicorn begins after the loop is made; Ctrl-C before that leaves a coroutine
            super().run(sockets)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for listening in sockets or ():
            listening.listen(BACKLOG)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await super().shutdown(sockets)
        if self.force_exit:  # then uvicorn leaves this out, and the application ends with a traceback
            await self.lifespan.shutdown()


class FewLines(logging.Filter):
    """Logs a few lines of each kind per minute, and how many were left out before the next one."""

    def __init__(self) -> None:
        super().__init__()
        self._lines: dict[str, tuple[float, int]] = {}  # start of the minute and number of lines, by kind

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[0].__name__ if record.exc_info and record.exc_info[0] else ""
        if error == "CancelledError":  # a request that a second Ctrl-C has cut off
            return False
        kind = f"{record.name} {error} {record.msg}"[:100]
        start, count = self._lines.get(kind, (0.0, 0))
        left_out = count - MOST_LINES
        if time.monotonic() - start > SECONDS:
            start, count = time.monotonic(), 0
            if left_out > 0:
                record.msg = f"{record.msg} ({left_out:,} such lines were left out)"
        self._lines[kind] = (start, count + 1)
        return count < MOST_LINES


FEW_LINES = FewLines()


def make_server(app: Any, seconds: float) -> Server:
    """Return a server of an ASGI application; a request must have arrived within ``seconds``."""
    connection: Any = partial(TimedConnection, seconds=seconds, most=most_connections(), turns=Turns())
    config = uvicorn.Config(
        close_unread(app),
        http=connection,
        loop="asyncio",
        ws="none",
        interface="asgi3",
        lifespan="on",
        log_level="warning",
        access_log=False,
        timeout_keep_alive=5,
        backlog=ACCEPTED,
    )
    for name in ("uvicorn.error", "asyncio"):
        logging.getLogger(name).addFilter(FEW_LINES)
    return Server(config)
