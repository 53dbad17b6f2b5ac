"""The Studio in a thread, on a free port, for tests."""

from __future__ import annotations

import http.client
import json
import shutil
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from semco.data.sources.bundled import fruit_photos
from semco.export.service import app_server, bind
from semco.studio.project import Project
from semco.studio.server import Guard, build_app


def copy_fruit(root: Path, classes: Sequence[str], per_class: int) -> Path:
    """Copy bundled photos of some classes into one folder; the names begin with the class."""
    root.mkdir(parents=True)
    for name in classes:
        for photo in sorted((fruit_photos() / name).iterdir())[:per_class]:
            shutil.copy(photo, root / f"{name} {photo.name}")
    return root


class Studio:
    """A project that is shown on this machine. Use it as a context manager."""

    def __init__(
        self,
        photos: Path,
        folder: Path,
        classes: Sequence[str] = (),
        settings: Sequence[str] = (),
        *,
        is_live: bool = False,
    ) -> None:
        self.project = Project(photos, folder, classes, settings, is_live=is_live)
        self._socket = bind()
        self.port = self._socket.getsockname()[1]
        self.guard = Guard(self.port)

    def __enter__(self) -> Studio:
        self.project.__enter__()
        self.start_server()
        return self

    def __exit__(self, *_error: object) -> None:
        self.stop_server()
        self.project.close()

    def start_server(self) -> None:
        """Answer requests, also again after `stop_server`."""
        if self._socket.fileno() < 0:
            self._socket = bind(port=self.port)
        self._server = app_server(build_app(self.project, self.guard))
        self._thread = threading.Thread(target=self._server.run, args=([self._socket],), daemon=True)
        self._thread.start()
        while not self._server.started:
            time.sleep(0.01)

    def stop_server(self) -> None:
        """Answer no request any more."""
        self._server.should_exit = True
        self._thread.join(60)
        self._socket.close()

    def raw(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, dict[str, str], bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        content = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        try:
            connection.request(method, path, content, headers)
            response = connection.getresponse()
            return response.status, dict(response.getheaders()), response.read()
        finally:
            connection.close()

    def ask(self, path: str, body: Any = None) -> tuple[int, Any]:
        """Return status and values of a request with the token: a POST if there is a body."""
        method = "GET" if body is None else "POST"
        status, _, content = self.raw(method, path, body, Authorization=f"Bearer {self.guard.token}")
        return status, json.loads(content)

    def wait_for(self, path: str, state: str, seconds: float = 240.0) -> Any:
        """Return the values of a status as soon as it has a state."""
        end = time.monotonic() + seconds
        while True:
            _, values = self.ask(path)
            if values["state"] == state:
                return values
            assert values["state"] in ("running", "none"), values
            assert time.monotonic() < end, values
            time.sleep(0.3)
