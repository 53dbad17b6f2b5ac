"""A small HTTP service: ``POST /predict`` with photos, ``GET /health``, and ``GET /``, a page to drop a photo on.

Bad requests get a 4xx status and one sentence as JSON, ``{"error": "..."}``.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import socket
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from semco.data.decode import DECODE_ERRORS
from semco.data.listing import Entry
from semco.errors import UserError
from semco.evaluation.photos import InMemory
from semco.evaluation.predictions import Prediction
from semco.evaluation.predictor import Predictor, decode_for
from semco.export.batching import Batcher

PAGE = Path(__file__).parent / "page.html"
EXTRA = "semco[serve]"
ADDRESSES = "the service answers POST /predict, GET /health and GET /, nothing else."
NEEDED = ("starlette", "uvicorn", "python_multipart")


@dataclass(frozen=True)
class Limits:
    """What a request may cost."""

    megabytes: float = 20.0
    """Size of a request."""
    photos: int = 64
    """Photos per request."""
    seconds: float = 30.0
    """Time until a request is given up."""
    waiting: int = 512
    """Requests that are worked on at the same time; further ones get status 503."""
    threads: int = 2
    """Threads that decode photos."""


class RefusedError(Exception):
    """A request that is answered with a status and a sentence."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status, self.sentence = status, sentence


class Service:
    """Answers requests with one model."""

    def __init__(self, predictor: Predictor, limits: Limits | None = None, token: str | None = None) -> None:
        self.predictor, self.limits, self._token = predictor, limits or Limits(), token
        self._batcher = Batcher(predictor.engine)
        self._decoders = ThreadPoolExecutor(self.limits.threads, thread_name_prefix="semco-decode")
        self._active = 0

    def close(self) -> None:
        self._decoders.shutdown(wait=False, cancel_futures=True)
        self._batcher.close()

    def health(self) -> dict[str, Any]:
        about = self.predictor.about
        return {"status": "ok", "classes": len(about.class_names), "engine": self.predictor.engine.name}

    def check_token(self, header: str) -> None:
        if self._token is not None and not hmac.compare_digest(header.encode(), f"Bearer {self._token}".encode()):
            raise RefusedError(401, "this service needs a token: send the header Authorization: Bearer TOKEN.")

    async def answer(self, read: Callable[[], Awaitable[list[tuple[str, bytes]]]], top: int) -> list[dict[str, Any]]:
        """Return the answers for the photos of a request, in their order."""
        if self._active >= self.limits.waiting:
            raise RefusedError(503, "too many requests are waiting; try again in a moment.")
        self._active += 1
        try:
            async with asyncio.timeout(self.limits.seconds):
                photos = await read()
                if not photos:
                    raise RefusedError(400, "the request holds no photo; send its bytes as the body, or a form.")
                if len(photos) > self.limits.photos:
                    raise RefusedError(413, f"a request holds at most {self.limits.photos} photos, not {len(photos)}.")
                answers = await asyncio.gather(*(self._predict(name, content, top) for name, content in photos))
        except TimeoutError:
            raise RefusedError(408, f"the request took more than {self.limits.seconds:g} seconds.") from None
        finally:
            self._active -= 1
        if all("error" in answer for answer in answers):
            raise RefusedError(415, f"no photo can be read: {answers[0]['error']}.")
        return answers

    async def _predict(self, name: str, content: bytes, top: int) -> dict[str, Any]:
        entry = Entry(name, InMemory(content))
        work = partial(decode_for, entry, self.predictor.about)
        image = await asyncio.get_running_loop().run_in_executor(self._decoders, work)
        if isinstance(image, str):
            return {"name": name, "error": image}
        return as_json(name, await self._batcher.predict(image, top))


def as_json(name: str, answer: Prediction) -> dict[str, Any]:
    """Return a prediction as the service sends it."""
    return {
        "name": name,
        "label": answer.label,
        "confidence": answer.confidence,
        "group": answer.group,
        "top": [{"label": label, "confidence": confidence} for label, confidence in answer.top],
        "heads": {head: {"label": label, "confidence": chance} for head, (label, chance) in answer.heads.items()},
    }


def check_installed(what: str = "the service", extra: str = EXTRA) -> None:
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        raise UserError(f"{what} needs {', '.join(missing)}: pip install '{extra}'.")


def build_app(service: Service) -> Any:
    """Return the service as an ASGI application."""
    check_installed()
    from starlette.applications import Starlette
    from starlette.exceptions import HTTPException
    from starlette.responses import HTMLResponse
    from starlette.routing import Route

    from semco.export.json_response import AsciiJSONResponse as JSONResponse

    def refused(_request: Any, error: Any) -> Any:
        return JSONResponse({"error": error.sentence}, error.status)

    def unknown(_request: Any, error: Any) -> Any:
        return JSONResponse({"error": ADDRESSES}, error.status_code, error.headers)

    def failed(_request: Any, _error: Any) -> Any:
        return JSONResponse({"error": "the service failed on this request; its log says why."}, 500)

    async def predict(request: Any) -> Any:
        service.check_token(request.headers.get("authorization", ""))
        top = _top(request.query_params.get("top", "3"))
        answers = await service.answer(partial(read_photos, request, service.limits), top)
        return JSONResponse({"predictions": answers})

    async def health(_request: Any) -> Any:
        return JSONResponse(service.health())

    async def page(_request: Any) -> Any:
        return HTMLResponse(PAGE.read_text(encoding="utf-8"))

    @asynccontextmanager
    async def lifespan(_app: Any) -> Any:
        yield
        service.close()

    routes = [Route("/", page), Route("/health", health), Route("/predict", predict, methods=["POST"])]
    handlers: dict[Any, Any] = {RefusedError: refused, HTTPException: unknown, Exception: failed}
    return Starlette(routes=routes, exception_handlers=handlers, lifespan=lifespan)


def _top(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 6 or int(text) < 1:
        raise RefusedError(400, "top is the number of classes per photo, a whole number from 1 on.")
    return int(text)


async def read_photos(request: Any, limits: Limits) -> list[tuple[str, bytes]]:
    """Return the photos of a request by name: its body, or the files of a multipart form."""
    body = await read_body(request, int(limits.megabytes * 1e6))
    kind = request.headers.get("content-type", "")
    if not kind.lower().startswith("multipart/form-data"):
        return [("photo", body)] if body else []
    return await _read_form(kind, body, limits)


async def read_body(request: Any, most: int) -> bytes:
    """Return the body; as soon as it is too long, the rest is not read."""
    sentence = f"the request is larger than {most / 1e6:g} MB."
    announced = request.headers.get("content-length", "0")
    if announced.isascii() and announced.isdigit() and int(announced[:18]) > most:
        raise RefusedError(413, sentence)
    from starlette.requests import ClientDisconnect

    body = bytearray()
    try:
        async for chunk in request.stream():
            body += chunk
            if len(body) > most:
                raise RefusedError(413, sentence)
    except ClientDisconnect:
        raise RefusedError(400, "the connection was closed before the request was complete.") from None
    return bytes(body)


async def _read_form(kind: str, body: bytes, limits: Limits) -> list[tuple[str, bytes]]:
    from starlette.datastructures import Headers, UploadFile
    from starlette.formparsers import MultiPartException, MultiPartParser

    async def stream() -> Any:
        yield body

    parser = MultiPartParser(Headers({"content-type": kind}), stream(), max_files=limits.photos, max_fields=100)
    try:
        form = await parser.parse()
    except (MultiPartException, *DECODE_ERRORS) as error:
        reason = getattr(error, "message", None) or str(error) or type(error).__name__
        raise RefusedError(400, f"the form cannot be read: {reason}") from None
    async with _closing(form):
        files = [each for _, each in form.multi_items() if isinstance(each, UploadFile)]
        return [(file.filename or "photo", await file.read()) for file in files]


@asynccontextmanager
async def _closing(form: Any) -> Any:
    try:
        yield
    finally:
        await form.close()


def bind(host: str = "127.0.0.1", port: int = 0) -> socket.socket:
    """Return a socket at an address of this machine, at a port or, with 0, at any free one."""
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        found = socket.socket(family, kind)
    except OSError as error:
        raise UserError(f"host {host} cannot be used: {error.strerror}; choose another one.") from None
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind(address)
    except OSError as error:
        found.close()
        raise UserError(
            f"port {port} of {host} cannot be used: {error.strerror}; choose another port or host."
        ) from None
    return found


def make_server(service: Service) -> Any:
    """Return the service as a server, whose method ``run``, called with sockets, answers until it is stopped."""
    return app_server(build_app(service), service.limits.seconds)


def app_server(app: Any, seconds: float = Limits.seconds) -> Any:
    """Return a server of an ASGI application; a request must have arrived within ``seconds``."""
    import uvicorn

    from semco.export.connection import TimedConnection

    connection: Any = partial(TimedConnection, seconds=seconds)
    config = uvicorn.Config(
        app,
        http=connection,
        ws="none",
        log_level="warning",
        access_log=False,
        timeout_keep_alive=5,
        backlog=2048,
    )
    return uvicorn.Server(config)


def sample_request(url: str) -> str:
    """Return a command that sends a photo."""
    return f"curl -T photo.jpg -X POST {json.dumps(url + '/predict')}"
