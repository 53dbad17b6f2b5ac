"""A small HTTP service: ``POST /predict`` with photos, ``GET /health``, and ``GET /``, a page to drop a photo on.

Below ``/v2`` it speaks the Open Inference Protocol (`semco.export.inference_protocol`).

Bad requests get a 4xx status and one sentence as JSON, ``{"error": "..."}``.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import os
import socket
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import NDArray

from semco.data.decode import DECODE_ERRORS
from semco.errors import UserError
from semco.evaluation.thresholds import Threshold, choose_threshold
from semco.export import inference_protocol as protocol
from semco.export.batching import Batcher
from semco.export.decoding import Decoders, DecodingLimits
from semco.predict.predictions import Prediction, or_none_of_these
from semco.predict.predictor import Predictor, array_to_pixels, square_to_pixels

PAGE = Path(__file__).parent / "page.html"
EXTRA = "semco[serve]"
ADDRESSES = "the service answers POST /predict, GET /health, GET / and the Open Inference Protocol below /v2."
TOKEN = "SEMCO_TOKEN"  # the environment variable
MODEL = "semco"  # the name of the model in the Open Inference Protocol
FORM_PART = 1 << 16  # bytes of a form that are parsed at a time
Hold = Callable[[int], None]
NEEDED = ("starlette", "uvicorn", "python_multipart")


@dataclass(frozen=True)
class Limits:
    """Limits on a request."""

    megabytes: float = 20.0
    """Size of a request."""
    held_megabytes: float = 128.0
    """Size of all requests that are worked on at the same time; further ones get status 503."""
    photos: int = 64
    """Photos per request."""
    seconds: float = 30.0
    """Time until a request is given up."""
    waiting: int = 512
    """Requests that are worked on at the same time; further ones get status 503."""
    decoding: DecodingLimits = field(default_factory=DecodingLimits)
    """Limits of a photo."""


class RefusedError(Exception):
    """A request that is answered with a status and a sentence."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status, self.sentence = status, sentence


class Service:
    """Answers requests with one model."""

    def __init__(
        self, predictor: Predictor, limits: Limits | None = None, token: str | None = None, host: str = "localhost"
    ) -> None:
        self.predictor, self.limits, self._token, self._host = predictor, limits or Limits(), token, host
        self._batcher = Batcher(predictor.engine)
        decoding = self.limits.decoding
        decoding = replace(decoding, seconds=min(decoding.seconds, self.limits.seconds))
        self._decoders = Decoders(max(predictor.about.image_size), decoding)
        self._active = self._held = 0  # requests, and their bytes
        # Photos that are decoded and not predicted yet: their pixels take more memory than their files.
        self._room = asyncio.Semaphore(2 * predictor.about.batch_size)

    def close(self) -> None:
        self._decoders.close()
        self._batcher.close()

    def health(self) -> dict[str, Any]:
        about = self.predictor.about
        return {"status": "ok", "classes": len(about.class_names), "engine": self.predictor.engine.name}

    def check_token(self, header: str) -> None:
        if self._token is not None and not hmac.compare_digest(header.encode(), f"Bearer {self._token}".encode()):
            raise RefusedError(401, "this service needs a token: send the header Authorization: Bearer TOKEN.")

    def check_host(self, header: str) -> None:
        """Refuse host names that a page of another site may have pointed at this machine (DNS rebinding).

        Such a page has no token, so with a token any host name is accepted, for example that of a proxy.
        """
        if self._token is None and not is_own_name(header, self._host):
            raise RefusedError(403, "this service is called by its IP address or as localhost, unless it has a token.")

    async def answer(self, request: Any, top: int, threshold: Threshold | None = None) -> list[dict[str, Any]]:
        """Return the answers for the photos of a request, in order; those below a threshold are none of the classes."""
        async with self._admitted() as hold:
            photos = await read_photos(request, self.limits, hold)
            if not photos:
                raise RefusedError(400, "the request holds no photo; send its bytes as the body, or a form.")
            found = await asyncio.gather(*(self._predict(content, top) for _, content in photos))
        if all(isinstance(each, str) for each in found):
            raise RefusedError(415, f"no photo can be read: {found[0]}.")
        named = zip((name for name, _ in photos), found, strict=True)
        return [
            {"name": n, "error": each} if isinstance(each, str) else as_json(n, or_none_of_these(each, threshold))
            for n, each in named
        ]

    async def infer(self, request: Any) -> dict[str, Any]:
        """Return the answer to a request of the Open Inference Protocol."""
        names = self.predictor.about.class_names
        async with self._admitted() as hold:
            body = await read_body(request, int(self.limits.megabytes * 1e6), hold)
            length = request.headers.get(protocol.HEADER_LENGTH)
            try:
                asked = await asyncio.to_thread(protocol.parse_request, body, length, self.limits.photos)
            except protocol.BadRequestError as error:
                raise RefusedError(400, str(error)) from None
            found = await asyncio.gather(*(self._predict(photo, len(names)) for photo in asked.photos))
        broken = next((each for each in found if isinstance(each, str)), None)
        if broken is not None:  # the protocol cannot express a photo without an answer
            raise RefusedError(415, f"a photo cannot be read: {broken}.")
        position = {name: i for i, name in enumerate(names)}
        scores = np.zeros((len(found), len(names)), np.float32)
        for row, each in zip(scores, found, strict=True):
            assert not isinstance(each, str)
            for name, confidence in each.top:
                row[position[name]] = confidence
        return protocol.response(asked, MODEL, scores, list(names))

    @asynccontextmanager
    async def _admitted(self) -> AsyncIterator[Hold]:
        """Admit a request, unless there are too many, for a limited time; yields a function that counts its bytes."""
        if self._active >= self.limits.waiting:
            raise RefusedError(503, "too many requests are waiting; try again in a moment.")
        self._active += 1
        try:
            async with asyncio.timeout(self.limits.seconds):
                with self._holding() as hold:
                    yield hold
        except TimeoutError:
            raise RefusedError(408, f"the request took more than {self.limits.seconds:g} seconds.") from None
        finally:
            self._active -= 1

    @contextmanager
    def _holding(self) -> Iterator[Hold]:
        """Yield a function that counts the bytes of a request and refuses more than the limit for all requests."""
        own = 0

        def hold(count: int) -> None:
            nonlocal own
            own += count
            self._held += count
            if self._held > self.limits.held_megabytes * 1e6:
                raise RefusedError(503, "too many large requests are waiting; try again in a moment.")

        try:
            yield hold
        finally:
            self._held -= own

    async def _predict(self, photo: bytes | NDArray[np.uint8], top: int) -> Prediction | str:
        """Return the answer for a photo, given as a file or as pixels (H, W, 3), or why it cannot be read."""
        about = self.predictor.about
        async with self._room:
            if isinstance(photo, bytes):
                square = await self._decoders.decode(photo)
                if isinstance(square, str):
                    return square
                pixels = square_to_pixels(square, about)
            else:
                pixels = await asyncio.to_thread(array_to_pixels, photo, about)
            return await self._batcher.predict(pixels, top)


def is_own_name(header: str, host: str) -> bool:
    """Return whether the Host of a request is an address, this machine, or the name that it listens on."""
    try:
        name = urlsplit(f"//{header}").hostname or ""
        if name in ("", "localhost", host.lower()):
            return True
        ip_address(name)
    except ValueError:
        return False
    return True


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


def check_start(token: str | None) -> None:
    """Refuse to start without the packages, or with an empty token.

    The command line treats an empty variable as unset, so the service would be open to everybody.
    """
    check_installed()
    if token == "" or (token is None and os.environ.get(TOKEN) == ""):
        raise UserError(f"the token is empty, so that anybody could use the service; set one, or unset {TOKEN}.")
    if token is not None and not (token.isascii() and token.isprintable() and token == token.strip()):
        raise UserError(
            "the token cannot be sent in a header; use printable ASCII characters, without spaces at its ends."
        )


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

    from semco.export.server import AsciiJSONResponse as JSONResponse

    def refused(_request: Any, error: Any) -> Any:
        return JSONResponse({"error": error.sentence}, error.status)

    def unknown(_request: Any, error: Any) -> Any:
        return JSONResponse({"error": ADDRESSES}, error.status_code, error.headers)

    def failed(_request: Any, _error: Any) -> Any:
        return JSONResponse({"error": "the service failed on this request; its log says why."}, 500)

    content = PAGE.read_text(encoding="utf-8")

    async def predict(request: Any) -> Any:
        service.check_host(request.headers.get("host", ""))
        service.check_token(request.headers.get("authorization", ""))
        top = _top(request.query_params.get("top", "3"))
        threshold = _threshold(request.query_params.get("none_of_these"), service.predictor.about.thresholds)
        return JSONResponse({"predictions": await service.answer(request, top, threshold)})

    async def health(request: Any) -> Any:
        service.check_host(request.headers.get("host", ""))
        return JSONResponse(service.health())

    async def page(request: Any) -> Any:
        service.check_host(request.headers.get("host", ""))
        return HTMLResponse(content)

    @asynccontextmanager
    async def lifespan(_app: Any) -> Any:
        yield
        service.close()

    routes = [Route("/", page), Route("/health", health), Route("/predict", predict, methods=["POST"])]
    routes += protocol_routes(service)
    handlers: dict[Any, Any] = {RefusedError: refused, HTTPException: unknown, Exception: failed}
    return Starlette(routes=routes, exception_handlers=handlers, lifespan=lifespan)


def protocol_routes(service: Service) -> list[Any]:
    """Return the addresses of the Open Inference Protocol."""
    from starlette.routing import Route

    from semco import __version__
    from semco.export.server import AsciiJSONResponse as JSONResponse

    classes = len(service.predictor.about.class_names)

    def answering(values: dict[str, Any]) -> Any:
        async def answer(request: Any) -> Any:
            service.check_host(request.headers.get("host", ""))
            return JSONResponse(values)

        return answer

    async def infer(request: Any) -> Any:
        service.check_host(request.headers.get("host", ""))
        service.check_token(request.headers.get("authorization", ""))
        return JSONResponse(await service.infer(request))

    fixed = {
        "/v2": protocol.server_metadata(__version__),
        "/v2/health/live": {"live": True},
        "/v2/health/ready": {"ready": True},
        f"/v2/models/{MODEL}": protocol.model_metadata(MODEL, classes),
        f"/v2/models/{MODEL}/ready": {"name": MODEL, "ready": True},
    }
    routes = [Route(path, answering(values)) for path, values in fixed.items()]
    return [*routes, Route(f"/v2/models/{MODEL}/infer", infer, methods=["POST"])]


def _top(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 6 or int(text) < 1:
        raise RefusedError(400, "top is the number of classes per photo, a whole number from 1 on.")
    return int(text)


def _threshold(text: str | None, thresholds: Sequence[Threshold]) -> Threshold | None:
    """Return the threshold that a request asks for."""
    if text is None:
        return None
    try:
        return choose_threshold(thresholds, float(text))
    except UserError as error:
        raise RefusedError(400, str(error)) from None
    except ValueError:
        sentence = "none_of_these is the part of the photos of the classes that may be rejected, for example 0.05."
        raise RefusedError(400, sentence) from None


async def read_photos(request: Any, limits: Limits, hold: Hold) -> list[tuple[str, bytes]]:
    """Return the photos of a request by name: its body, or the files of a multipart form."""
    body = await read_body(request, int(limits.megabytes * 1e6), hold)
    kind = request.headers.get("content-type", "")
    if not kind.lower().startswith("multipart/form-data"):
        return [("photo", body)] if body else []
    return await _read_form(kind, body, limits)


async def read_body(request: Any, most: int, hold: Hold | None = None) -> bytes:
    """Return the body; as soon as it is too long, the rest is not read. ``hold`` is called with each part's length."""
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
            if hold is not None:
                hold(len(chunk))
    except ClientDisconnect:
        raise RefusedError(400, "the connection was closed before the request was complete.") from None
    return bytes(body)


async def _read_form(kind: str, body: bytes, limits: Limits) -> list[tuple[str, bytes]]:
    from starlette.datastructures import Headers, UploadFile
    from starlette.formparsers import MultiPartException, MultiPartParser

    async def stream() -> Any:
        for start in range(0, len(body), FORM_PART):
            yield body[start : start + FORM_PART]
            await asyncio.sleep(0)  # lets other requests run

    parser = MultiPartParser(Headers({"content-type": kind}), stream(), max_files=limits.photos, max_fields=100)
    parser.spool_max_size = len(body)  # files stay in memory
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
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        # Only if the protocol is named, asyncio sends the parts of an answer at once; otherwise each waits 40 ms.
        found = socket.socket(family, kind, protocol)
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
    from semco.export import server

    return server.make_server(app, seconds)


def sample_request(url: str) -> str:
    """Return a command that sends a photo."""
    return f"curl -T photo.jpg -X POST {json.dumps(url + '/predict')}"
