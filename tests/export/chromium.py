"""Headless Chromium, driven through the DevTools protocol over a pipe, which needs no further package."""

from __future__ import annotations

import base64
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


IMPATIENT = "const patient = setInterval; window.setInterval = (work, time) => patient(work, time / 10);"


class LeftError(AssertionError):
    """The page was left for another one before it could answer."""


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
        self.problems: list[str] = []  # errors that pages wrote to the console, and requests that failed
        for domain in ("Runtime", "Log", "Page"):
            self._call(f"{domain}.enable")
        # A page asks for news every two seconds; here ten times as often.
        self._call("Page.addScriptToEvaluateOnNewDocument", source=IMPATIENT)

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
            self._note(values)
            if values.get("id") == self._next:
                if values.get("error", {}).get("message") == "Inspected target navigated or closed":
                    raise LeftError(values)
                assert "error" not in values, values
                return values["result"]

    def _note(self, event: dict[str, Any]) -> None:
        """Keep what an event says about errors of the page."""
        name, parameters = event.get("method"), event.get("params", {})
        if name == "Runtime.exceptionThrown":
            self.problems.append(str(parameters["exceptionDetails"]))
        if name == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "assert"):
            self.problems.append(str(parameters["args"]))
        if name == "Log.entryAdded" and parameters["entry"]["level"] == "error":
            self.problems.append(f"{parameters['entry']['text']} {parameters['entry'].get('url', '')}")

    def resize(self, width: int, height: int, *, dark: bool = False) -> None:
        """Set the size of the page in pixels, and whether dark colours are preferred."""
        self._call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._call("Emulation.setEmulatedMedia", features=[scheme])

    def screenshot(self, file: Path) -> None:
        """Write a picture of what is visible."""
        file.write_bytes(base64.b64decode(self._call("Page.captureScreenshot", format="png")["data"]))

    def accessibility(self) -> list[dict[str, Any]]:
        """Return what a screen reader gets: the nodes of the page that are not ignored, in the order of the page.

        Each has its role, name, level (of a heading), and whether it can have the focus.
        """
        nodes = self._call("Accessibility.getFullAXTree")["nodes"]
        by_id = {node["nodeId"]: node for node in nodes}
        found, waiting = [], [nodes[0]["nodeId"]]
        while waiting:
            node = by_id[waiting.pop()]
            waiting += reversed(node.get("childIds", []))
            if not node["ignored"]:
                properties = {each["name"]: each["value"].get("value") for each in node.get("properties", [])}
                values = {name: node.get(name, {}).get("value", "") for name in ("role", "name")}
                found.append(
                    {**values, "level": properties.get("level"), "focusable": properties.get("focusable", False)}
                )
        return found

    def choose_files(self, selector: str, *files: Path) -> None:
        """Choose files for an input, as the dialog of the browser would."""
        root = self._call("DOM.getDocument")["root"]["nodeId"]
        node = self._call("DOM.querySelector", nodeId=root, selector=selector)["nodeId"]
        self._call("DOM.setFileInputFiles", nodeId=node, files=[str(file) for file in files])

    def key(self, key: str, modifiers: int = 0) -> None:
        """Press and release a key, such as ``1``, ``ArrowRight`` or ``Enter``; modifiers: 1 Alt, 2 Ctrl, 8 Shift."""
        text = {"Enter": "\r"}.get(key, key if len(key) == 1 else "")
        codes = {"Enter": 13, "Tab": 9, "Escape": 27, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40}
        values = {"key": key, "modifiers": modifiers, "windowsVirtualKeyCode": codes.get(key, ord(key[0].upper()))}
        kind = "keyDown" if text and not modifiers & 2 else "rawKeyDown"
        self._call("Input.dispatchKeyEvent", type=kind, **values, **({"text": text} if kind == "keyDown" else {}))
        self._call("Input.dispatchKeyEvent", type="keyUp", **values)

    def type(self, text: str) -> None:
        """Write text into the element that has the focus."""
        self._call("Input.insertText", text=text)

    def mouse(self, kind: str, x: float, y: float, modifiers: int = 0) -> None:
        """Move, press or release the mouse: ``mouseMoved``, ``mousePressed``, ``mouseReleased``."""
        pressed = kind != "mouseMoved"
        self._call(
            "Input.dispatchMouseEvent", type=kind, x=x, y=y, modifiers=modifiers, button="left",
            buttons=0 if kind == "mouseReleased" else 1, clickCount=1 if pressed else 0,
        )  # fmt: skip

    def drag(self, start: tuple[float, float], end: tuple[float, float]) -> None:
        """Press the mouse at one place and release it at another."""
        self.mouse("mousePressed", *start)
        for part in (0.3, 0.6, 1.0):
            self.mouse("mouseMoved", *(a + part * (b - a) for a, b in zip(start, end, strict=True)))
        self.mouse("mouseReleased", *end)

    def centre(self, selector: str) -> tuple[float, float]:
        """Return the middle of the first element that fits, which is scrolled into view."""
        box = self.wait(f"""(() => {{ const found = document.querySelector({json.dumps(selector)});
            if (!found) return null; found.scrollIntoView({{ block: "nearest" }});
            const box = found.getBoundingClientRect();
            return box.width ? [box.x + box.width / 2, box.y + box.height / 2] : null; }})()""")
        return box[0], box[1]

    def click(self, selector: str, modifiers: int = 0) -> None:
        """Click the middle of the first element that fits."""
        x, y = self.centre(selector)
        self.mouse("mousePressed", x, y, modifiers)
        self.mouse("mouseReleased", x, y, modifiers)

    def open(self, url: str) -> None:
        self._call("Page.navigate", url=url)
        self.wait("document.readyState === 'complete' && location.href !== 'about:blank'")

    def leave(self) -> None:
        """Leave the page, which may ask a server that has ended, and forget its errors."""
        self._call("Page.navigate", url="about:blank")
        self.wait("location.href === 'about:blank'")
        self.problems.clear()

    def run(self, script: str) -> Any:
        """Return the value of an expression."""
        done = self._call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in done, done
        return done["result"].get("value")

    def wait(self, condition: str, seconds: float = 60.0) -> Any:
        """Return the value of an expression as soon as it is true."""
        end = time.monotonic() + seconds
        while not (value := self._run_if_here(condition)):
            assert time.monotonic() < end, condition
            time.sleep(0.05)
        return value

    def _run_if_here(self, script: str) -> Any:
        """Return the value of an expression; None while the browser is on its way to another page."""
        try:
            return self.run(script)
        except LeftError:
            return None
