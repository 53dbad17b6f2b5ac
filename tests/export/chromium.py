"""Headless Chromium, driven through the DevTools protocol over a pipe, which needs no further package."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Any

PROGRAM = shutil.which("chromium") or shutil.which("google-chrome")
OPTIONS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run",
           "--remote-debugging-pipe"]  # fmt: skip


class Browser:
    """One page of a browser. Use it as a context manager."""

    def __init__(self, profile: Path) -> None:
        assert PROGRAM is not None
        read_commands, self._commands = os.pipe()
        self._replies, write_replies = os.pipe()
        # Chromium reads commands from descriptor 3 and writes replies to 4.
        script = f'exec "$@" 3<&{read_commands} 4>&{write_replies}'
        command = ["bash", "-c", script, "chromium", PROGRAM, *OPTIONS, f"--user-data-dir={profile}", "about:blank"]
        self._process = subprocess.Popen(
            command, pass_fds=(read_commands, write_replies), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        os.close(read_commands)
        os.close(write_replies)
        self._buffer, self._next, self._session = b"", 0, ""
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]

    def __enter__(self) -> Browser:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.terminate()
        self._process.wait()
        os.close(self._commands)
        os.close(self._replies)

    def _call(self, method: str, **parameters: Any) -> Any:
        self._next += 1
        message = {"id": self._next, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        while True:
            while b"\0" not in self._buffer:
                part = os.read(self._replies, 1 << 16)
                assert part, "the browser has ended"
                self._buffer += part
            reply, _, self._buffer = self._buffer.partition(b"\0")
            values = json.loads(reply)
            if values.get("id") == self._next:
                assert "error" not in values, values
                return values["result"]

    def open(self, url: str) -> None:
        self._call("Page.navigate", url=url)
        self.wait("document.readyState === 'complete' && location.href !== 'about:blank'")

    def run(self, script: str) -> Any:
        """Return the value of an expression."""
        done = self._call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in done, done
        return done["result"].get("value")

    def wait(self, condition: str, seconds: float = 60.0) -> Any:
        """Return the value of an expression as soon as it is true."""
        end = time.monotonic() + seconds
        while not (value := self.run(condition)):
            assert time.monotonic() < end, condition
            time.sleep(0.05)
        return value
