"""The server of the service and of the Studio; needs uvicorn."""

from __future__ import annotations

import logging
import socket
import time
from functools import partial
from typing import Any

import uvicorn

from semco.export.connection import TimedConnection, Turns, close_unread, most_connections

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
