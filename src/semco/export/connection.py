"""HTTP connections of the service; needs uvicorn."""

from __future__ import annotations

import asyncio
import json
from http import HTTPStatus
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol


class TimedConnection(H11Protocol):
    """A connection that gets 408 if the head of a request does not arrive in time, and 400 if it is not HTTP.

    uvicorn waits for the head forever: clients that send half a request could use up all connections. How long the
    rest of a request may take is limited by `semco.export.service.Limits`.
    """

    def __init__(self, *args: Any, seconds: float, **named: Any) -> None:
        super().__init__(*args, **named)
        self._seconds = seconds
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    def _watch(self) -> None:
        """Start the timer when the head of a request is awaited, and stop it when the head is there."""
        if self.conn.their_state is not h11.IDLE:
            self._stop_timer()
        elif self._timer is None and not self.transport.is_closing():
            self._timer = self.loop.call_later(self._seconds, self._give_up)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _give_up(self) -> None:
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
