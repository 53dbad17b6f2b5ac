"""The routes of the Studio. Every request needs the token of the session, and comes from the page itself.

Bad requests get a 4xx status and one sentence as JSON, ``{"error": "..."}``.
"""

from __future__ import annotations

import asyncio
import hmac
import html
import json
import os
import secrets
import shutil
import tempfile
import webbrowser
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from semco.errors import UserError, brief
from semco.export.service import RefusedError, app_server, bind, check_installed, read_body
from semco.files import encode_text
from semco.run.folder import RunFolder
from semco.studio.class_changes import ChangedElsewhereError, whole_number
from semco.studio.journal import Conflict
from semco.studio.photos import UnreadableError
from semco.studio.project import Project
from semco.studio.views import Query

PREFIX = ".open-"  # of the folder with the file
PAGE = """<!DOCTYPE html>
<meta charset="utf-8">
<meta name="referrer" content="no-referrer">
<meta http-equiv="refresh" content="0; url={url}">
<title>SemCo Studio</title>
<p><a href="{url}">Open the Studio</a></p>
"""


@contextmanager
def private_page(url: str, folder: Path) -> Iterator[Path]:
    """Yield a file, in a new folder below ``folder``, that redirects to ``url``; both are removed afterwards."""
    for left in folder.glob(f"{PREFIX}*"):  # by a process that was killed; its token is void
        if not left.is_symlink():
            shutil.rmtree(left, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=PREFIX, dir=folder) as private:  # mode 0700
        file = Path(private, "studio.html")
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as stream:
            stream.write(PAGE.format(url=html.escape(url)))
        yield file


@contextmanager
def opened_in_browser(url: str, folder: Path) -> Iterator[None]:
    """Open a page in the browser; the file that redirects to it is kept until the block ends."""
    with private_page(url, folder) as file:
        webbrowser.open(file.as_uri())
        yield


STATIC = Path(__file__).parent / "static"
KINDS = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
EXTRA = "semco[studio]"
MOST_BYTES = 2_000_000  # of a request that carries no photos
DECODERS = max(2, min(8, os.cpu_count() or 1))  # threads that make thumbnails
HEADERS = {
    "Content-Security-Policy": "default-src 'self'; img-src 'self' blob: data:; frame-ancestors 'none'; "
    "form-action 'none'; base-uri 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
# A report of a run is one file with its own styles and scripts, which can ask this server for nothing.
REPORT_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:; sandbox allow-scripts"
)
# It names an empty icon, so that the browser does not ask for /favicon.ico.
ON_TO_THE_PAGE = (
    '<!DOCTYPE html><link rel="icon" href="data:,"><meta http-equiv="refresh" content="0; url=/">'
    "<title>SemCo Studio</title>"
)
T = TypeVar("T")


class Guard:
    """Accepts requests with the token: once in the address, then in a cookie, or in a header."""

    def __init__(self, port: int, token: str | None = None) -> None:
        self.token = token or secrets.token_urlsafe(24)
        self._hosts = {f"{host}:{port}" for host in ("127.0.0.1", "localhost")}
        self.cookie = f"semco_studio_{port}"
        self.url = f"http://127.0.0.1:{port}/?token={self.token}"

    def check(self, request: Any) -> None:
        """Refuse requests that may come from another page or machine, and those without the token."""
        self.check_origin(request)
        header = request.headers.get("authorization", "").removeprefix("Bearer ")
        if not any(self.is_token(given) for given in (header, request.cookies.get(self.cookie, ""))):
            raise RefusedError(401, "open the address that the terminal shows: it holds the token of this session.")

    def check_origin(self, request: Any) -> None:
        if request.headers.get("host", "") not in self._hosts:
            raise RefusedError(403, "the Studio answers on 127.0.0.1 only.")
        origin = request.headers.get("origin")
        if origin is not None and origin.removeprefix("http://") not in self._hosts:
            raise RefusedError(403, "the Studio answers its own page only.")

    def is_token(self, given: str) -> bool:
        return hmac.compare_digest(given.encode(), self.token.encode())


class Routes:
    """The answers to requests, one method each."""

    def __init__(self, project: Project, guard: Guard) -> None:
        from starlette import responses

        from semco.export.server import AsciiJSONResponse

        self._project, self._guard, self._responses = project, guard, responses
        self._json = AsciiJSONResponse
        self._threads = ThreadPoolExecutor(DECODERS, thread_name_prefix="semco-thumbnails")
        # Words are looked up one request at a time, so that waiting requests do not block the threads of others.
        self._words = ThreadPoolExecutor(1, thread_name_prefix="semco-words")
        self._files = {path.name: path for path in STATIC.iterdir() if path.suffix in KINDS}

    def close(self) -> None:
        for threads in (self._threads, self._words):
            threads.shutdown(wait=False, cancel_futures=True)

    def json(self, values: Any, status: int = 200) -> Any:
        return self._json(values, status, headers=HEADERS)

    async def page(self, request: Any) -> Any:
        """The page itself; with the token in the address, a cookie is set and the address becomes plain.

        A page removes the token from the address, not an HTTP redirect: browsers do not send a strict cookie after a
        redirect that began at another page, or at the file that opens the Studio.
        """
        self._guard.check_origin(request)
        if self._guard.is_token(request.query_params.get("token", "")):
            answer = self._responses.HTMLResponse(ON_TO_THE_PAGE, headers=HEADERS)
            answer.set_cookie(self._guard.cookie, self._guard.token, httponly=True, samesite="strict")
            return answer
        self._guard.check(request)
        return self._file("index.html")

    async def static(self, request: Any) -> Any:
        self._guard.check(request)
        name = request.path_params["name"]
        if name not in self._files:
            raise RefusedError(404, "there is no such file.")
        return self._file(name)

    def _file(self, name: str) -> Any:
        path = self._files[name]
        return self._responses.Response(path.read_bytes(), media_type=KINDS[path.suffix], headers=HEADERS)

    async def thumbnail(self, request: Any) -> Any:
        return await self._image(request, self._project.photos.thumbnail)

    async def preview(self, request: Any) -> Any:
        return await self._image(request, self._project.photos.preview)

    async def _image(self, request: Any, make: Callable[[int], bytes]) -> Any:
        self._guard.check(request)
        if request.path_params["session"] != self._project.session:
            raise RefusedError(410, "the Studio was started again; reload the page.")
        work = partial(make, whole_number(request.path_params["number"]))
        content = await asyncio.get_running_loop().run_in_executor(self._threads, work)
        headers = {**HEADERS, "Cache-Control": "private, max-age=86400, immutable"}
        return self._responses.Response(content, media_type="image/jpeg", headers=headers)

    async def name(self, request: Any) -> Any:
        self._guard.check(request)
        return self.json({"name": self._project.photos.name(whole_number(request.path_params["number"]))})

    async def state(self, request: Any) -> Any:
        self._guard.check(request)
        since = request.query_params.get("since")
        return self.json(await _thread(self._project.state, None if since is None else whole_number(since)))

    async def classes(self, request: Any) -> Any:
        self._guard.check(request)
        work = self._project.describe
        if request.method == "POST":
            values = await _body(request)
            seen = None if values.get("seen") is None else whole_number(values["seen"])
            work = partial(self._project.change_classes, values, _tab(values), seen)
        return self.json(await asyncio.get_running_loop().run_in_executor(self._words, work))

    async def labels(self, request: Any) -> Any:
        """Label photos, and return the labels that have changed since the tab last looked."""
        self._guard.check(request)
        values = await _body(request)
        photos = [whole_number(each) for each in _listed(values.get("photos"))]
        label = None if values.get("label") is None else whole_number(values["label"])
        seen = whole_number(values.get("seen", 0))
        answer = await _thread(self._label, photos, label, _tab(values), seen, bool(values.get("blind")))
        return self.json(answer, 409 if "error" in answer else 200)

    def _label(self, photos: list[int], label: int | None, tab: str, seen: int, is_blind: bool) -> dict[str, Any]:
        conflict = {}
        try:
            self._project.label(photos, label, tab, seen, is_blind=is_blind)
        except Conflict as found:
            some = f"{len(found.photos)} of these photos" if len(found.photos) > 1 else found.photos[0]
            sentence = f"{some} got another label in another tab; it is shown now. Label again to change it."
            conflict = {"error": sentence}
        return {"seq": self._project.journal.seq, "labels": self._project.changes(seen), **conflict}

    async def undo(self, request: Any) -> Any:
        self._guard.check(request)
        values = await _body(request)
        seq = None if values.get("of") is None else whole_number(values["of"])
        if values.get("redo"):
            await _thread(self._project.journal.redo, seq or 0, _tab(values))
        else:
            await _thread(self._project.journal.undo, _tab(values), seq)
        return self.json(await _thread(self._project.state, whole_number(values.get("seen", 0))))

    async def history(self, request: Any) -> Any:
        self._guard.check(request)
        return self.json(await _thread(self._project.history))

    async def view(self, request: Any) -> Any:
        self._guard.check(request)
        return self.json(await _thread(self._project.view, Query.parse(request.query_params)))

    async def review(self, request: Any) -> Any:
        self._guard.check(request)
        return self.json(await asyncio.get_running_loop().run_in_executor(self._words, self._project.review))

    async def live(self, request: Any) -> Any:
        """Return the progress of the model that follows the labels."""
        self._guard.check(request)
        return self.json(await _thread(self._project.follow))

    async def training(self, request: Any) -> Any:
        """Return the progress, or start, stop or resume a round."""
        self._guard.check(request)
        if request.method == "POST":
            await self._control(await _body(request))
        return self.json(await _thread(self._project.progress))

    async def _control(self, values: dict[str, Any]) -> None:
        action, start = values.get("action"), values.get("start", "auto")
        if action == "start" and start in ("auto", "scratch", "last"):
            minutes = values.get("minutes", 5)
            if not isinstance(minutes, int | float) or not 0.1 <= minutes <= 6000:
                raise UserError("a round takes 0.1 to 6,000 minutes; choose a number.")
            await _thread(self._project.train, float(minutes), start)
        elif action == "resume":
            await _thread(self._project.resume)
        elif action == "stop":
            self._project.training.stop()
        else:
            raise UserError(f"training can be started, stopped and resumed, not {brief(action, 40)}.")

    async def predict(self, request: Any) -> Any:
        self._guard.check(request)
        service = await _thread(self._project.service)
        return self.json({"predictions": await service.answer(request, 3)})

    async def exports(self, request: Any) -> Any:
        self._guard.check(request)
        if request.method == "POST":
            values = await _body(request)
            least = values.get("least", 0.9)
            if not isinstance(least, int | float) or not 0 <= least <= 1:
                raise UserError("the lowest confidence that counts as sure is a number from 0 to 1.")
            await _thread(self._project.export, str(values.get("kind")), float(least), bool(values.get("link")))
        return self.json(await _thread(self._project.exports))

    async def csv(self, request: Any) -> Any:
        self._guard.check(request)
        headers = {**HEADERS, "Content-Disposition": 'attachment; filename="labels.csv"'}
        content = encode_text(await _thread(self._project.csv))
        return self._responses.Response(content, media_type="text/csv", headers=headers)

    async def report(self, request: Any) -> Any:
        self._guard.check(request)
        file = RunFolder(self._project.training.path(whole_number(request.path_params["number"]))).report_file
        if not file.is_file():
            raise RefusedError(404, "this round has no report yet.")
        headers = {**HEADERS, "Content-Security-Policy": REPORT_POLICY}
        return self._responses.Response(file.read_bytes(), media_type="text/html", headers=headers)

    def unknown(self, _request: Any, error: Any) -> Any:
        return self.json({"error": "the Studio has no such page, or does not answer this method."}, error.status_code)

    def refused(self, _request: Any, error: Any) -> Any:
        return self.json({"error": error.sentence}, error.status)

    def unreadable(self, _request: Any, error: Any) -> Any:
        return self.json({"error": str(error)}, 415)

    def changed(self, _request: Any, error: Any) -> Any:
        return self.json({"error": str(error)}, 409)

    def bad(self, _request: Any, error: Any) -> Any:
        return self.json({"error": str(error)}, 400)

    def cannot(self, _request: Any, error: Any) -> Any:
        """A file or a process of the project that the system refuses: the disk is full, or a folder is read-only."""
        return self.json({"error": f"the Studio cannot do this: {error}; nothing is lost."}, 400)

    def failed(self, _request: Any, _error: Any) -> Any:
        return self.json({"error": "the Studio failed on this request; the terminal says why."}, 500)


async def _thread(work: Callable[..., T], *arguments: Any) -> T:
    return await asyncio.to_thread(work, *arguments)


async def _body(request: Any) -> dict[str, Any]:
    """Return the JSON object of a request."""
    try:
        values = json.loads(await read_body(request, MOST_BYTES))
    except (ValueError, RecursionError):
        values = None
    if not isinstance(values, dict):
        raise RefusedError(400, "the request is not a JSON object.")
    return values


def _listed(value: Any) -> list[Any]:
    if not isinstance(value, list) or not value:
        raise RefusedError(400, "choose at least one photo.")
    return value


def _tab(values: dict[str, Any]) -> str:
    return str(values.get("tab", ""))[:40]


def build_app(project: Project, guard: Guard) -> Any:
    """Return the Studio as an ASGI application."""
    check_installed("the Studio", EXTRA)
    from starlette.applications import Starlette
    from starlette.exceptions import HTTPException
    from starlette.routing import Route

    routes = Routes(project, guard)
    both = ["GET", "POST"]
    paths = [
        Route("/", routes.page),
        Route("/static/{name}", routes.static),
        Route("/thumbnail/{session}/{number}", routes.thumbnail),
        Route("/preview/{session}/{number}", routes.preview),
        Route("/report/{number}", routes.report),
        Route("/labels.csv", routes.csv),
        Route("/api/state", routes.state),
        Route("/api/name/{number}", routes.name),
        Route("/api/classes", routes.classes, methods=both),
        Route("/api/labels", routes.labels, methods=["POST"]),
        Route("/api/undo", routes.undo, methods=["POST"]),
        Route("/api/history", routes.history),
        Route("/api/view", routes.view),
        Route("/api/review", routes.review),
        Route("/api/live", routes.live),
        Route("/api/training", routes.training, methods=both),
        Route("/api/predict", routes.predict, methods=["POST"]),
        Route("/api/exports", routes.exports, methods=both),
    ]
    handlers: dict[Any, Any] = {
        HTTPException: routes.unknown,
        RefusedError: routes.refused,
        UnreadableError: routes.unreadable,
        ChangedElsewhereError: routes.changed,
        UserError: routes.bad,
        OSError: routes.cannot,
        Exception: routes.failed,
    }

    @asynccontextmanager
    async def lifespan(_app: Any) -> Any:
        yield
        routes.close()

    return Starlette(routes=paths, exception_handlers=handlers, lifespan=lifespan)


def serve(project: Project, port: int | None, on_ready: Callable[[str], None], opens_browser: bool) -> None:
    """Show a project until the process is interrupted; ``on_ready`` gets the address to open."""
    with bind(port=port or 0) as listening, ExitStack() as opened:
        guard = Guard(listening.getsockname()[1])
        server = app_server(build_app(project, guard))
        on_ready(guard.url)
        if opens_browser:
            listening.listen()  # a browser that is faster than the server waits instead of failing
            opened.enter_context(opened_in_browser(guard.url, project.folder))
        server.run([listening])
