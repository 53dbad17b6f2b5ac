"""The Studio with several tabs at once, which is killed, stopped, or finds a full disk or a folder it cannot write.

Whatever it has acknowledged with status 200 is there afterwards, as `torture.studio_memory` remembers it. No answer has
a status from 500 on, none takes longer than `PATIENCE`, and nothing writes a traceback.
"""

from __future__ import annotations

import ctypes
import faulthandler
import http.client
import json
import os
import resource
import secrets
import shutil
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from forking import forked_python
from PIL import Image

import semco.studio.project
from semco.export.service import app_server, bind
from semco.studio.project import Project
from semco.studio.server import Guard, build_app
from torture.attack import Attack, Case, Failure
from torture.studio_memory import Change, Memory, journal_lines

PHOTOS, FIRST = 12, {1: "red", 2: "green", 3: "blue"}
PATIENCE, LAST_PATIENCE = 20.0, 60.0  # seconds for an answer, and for the end of the Studio
SETTINGS = (
    "model.backbone=tiny", "data.image_size=8", "training.steps=20", "training.batch_size=4", "training.mu=1",
    "training.device=cpu", "optim.lr=0.001",
)  # fmt: skip
EVENTS = ("nothing", "kill", "kill", "kill", "stop", "full disk", "read-only folder")


class GoneError(Exception):
    """The Studio ended before it answered."""


@dataclass(frozen=True)
class Originals:
    """Photos, a project with one finished round, and the program that stands for Python."""

    photos: Path
    project: Path
    python: str


def prepare(folder: Path) -> Originals:
    originals = Originals(folder / "photos", folder / "project", forked_python())
    originals.photos.mkdir()
    for number in range(PHOTOS):
        colour = tuple(200 if band == number % 3 else 10 * number for band in range(3))
        image = Image.effect_noise((16, 16), 50).convert("RGB")
        Image.blend(image, Image.new("RGB", (16, 16), colour), 0.7).save(originals.photos / f"{number:02}.png")
    with studio(originals, originals.project, folder) as server:
        for number in range(6):
            server.ask("/api/labels", {"photos": [number], "label": 1 + number % 3, "seen": number + 1})
        server.ask("/api/training", {"action": "start", "start": "scratch"})
        while (state := server.ask("/api/training")[1])["state"] == "running":
            time.sleep(0.2)
        assert state["state"] == "finished", state
        for number in range(6):
            server.ask("/api/labels", {"photos": [number], "label": None, "seen": 99})
    return originals


def slow_describe(_table: object) -> dict[str, Any]:
    """Take the time of a look-up, and nothing else: many changes overlap."""
    time.sleep(Random().uniform(0, 0.03))
    return {"classes": [], "groups": [[1, 2, 3]], "together": [], "apart": []}


def obey_permissions() -> None:
    """Let the permissions of files hold for the administrator too."""
    header, data = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
    libc = ctypes.CDLL(None)
    if libc.capget(header, data) == 0:
        data[0] &= ~0b110  # CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH
        libc.capset(header, data)


@dataclass
class Server:
    """A Studio in a process of its own."""

    pid: int
    port: int
    token: str
    is_ending: bool = False

    def raw(self, path: str, body: Any = None) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        headers = {"Authorization": f"Bearer {self.token}"}
        try:
            content = None if body is None else json.dumps(body)
            connection.request("GET" if body is None else "POST", path, content, headers)
            response = connection.getresponse()
            status, content = response.status, response.read()
        except TimeoutError:
            raise Failure(f"no answer within {PATIENCE:g} s", f"{path} {body}") from None
        except (OSError, http.client.HTTPException) as error:
            raise GoneError(str(error)) from None
        finally:
            connection.close()
        if status == 401:
            raise GoneError("another Studio has got the port")
        return status, content

    def ask(self, path: str, body: Any = None) -> tuple[int, Any]:
        """Return status and values; an error of the Studio, or an end that nobody asked for, is a failure."""
        try:
            status, content = self.raw(path, body)
        except GoneError as error:
            if not self.is_ending:
                raise Failure("the Studio closed a connection without an answer", f"{path} {body}: {error}") from None
            raise
        if status >= 500:
            raise Failure(f"status {status} of {path.partition('?')[0]}", f"{body}: {content[:500]!r}")
        return status, json.loads(content)

    def end(self, number: int) -> None:
        self.is_ending = True
        os.kill(self.pid, number)

    def wait(self) -> int:
        """Return the exit code; what a Studio that does not end is doing is written to its log."""
        end = time.monotonic() + LAST_PATIENCE
        while (ended := os.waitpid(self.pid, os.WNOHANG))[0] == 0:
            if time.monotonic() > end:
                os.kill(self.pid, signal.SIGUSR1)
                time.sleep(1)
                os.kill(self.pid, signal.SIGKILL)
            time.sleep(0.005)
        return os.waitstatus_to_exitcode(ended[1])


def serve(originals: Originals, project: Path, listening: Any, token: str, log: Path) -> None:
    """The work of the process."""
    os.dup2(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND), 2)
    faulthandler.register(signal.SIGUSR1, file=2)
    obey_permissions()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.executable = originals.python
    os.environ["XDG_CACHE_HOME"] = str(log.with_name("cache"))
    semco.studio.project.describe = slow_describe
    try:
        with Project(originals.photos, project, tuple(FIRST.values()), SETTINGS) as opened:
            app_server(build_app(opened, Guard(listening.getsockname()[1], token))).run([listening])
    except KeyboardInterrupt:
        os._exit(0)


@contextmanager
def studio(originals: Originals, project: Path, folder: Path) -> Iterator[Server]:
    """Start a Studio and stop it; what it writes to the terminal must hold no traceback."""
    log, token, listening = folder / "studio.log", secrets.token_hex(8), bind()
    listening.listen()
    pid = os.fork()
    if pid == 0:
        try:
            serve(originals, project, listening, token, log)
        finally:
            os._exit(1)
    server = Server(pid, listening.getsockname()[1], token)
    listening.close()
    try:
        yield server
    finally:
        server.end(signal.SIGTERM)
        code = server.wait()
    text = log.read_text(errors="replace")
    if "most recent call first" in text:
        raise Failure(f"the Studio did not end within {LAST_PATIENCE:g} s", text[-3000:])
    if "Traceback" in text or code not in (0, -signal.SIGKILL):
        raise Failure(f"the Studio ended with code {code} or a traceback", text[-3000:])


class Tab:
    """One tab, which does something at random, one thing after the other."""

    def __init__(self, name: str, random: Random, photos: list[int], memory: Memory) -> None:
        self.name, self._random, self._photos, self._memory = name, random, photos, memory
        self._changes = memory.changes.setdefault(name, [])
        self._counter = 0

    def run(self, server: Server, journal: Path, count: int) -> None:
        try:
            self._seen = server.ask("/api/state")[1]["seq"]
            for _ in range(count):
                getattr(self, self._random.choice(("label",) * 5 + ("add", "change", "undo", "redo", "read")))(
                    server, journal
                )
        except GoneError:
            return

    def _send(self, server: Server, path: str, kind: str, values: Mapping[str, Any]) -> int:
        change = Change(kind, values)
        try:
            status, answer = server.ask(path, {**values, "tab": self.name, "seen": self._seen})
        except GoneError:
            self._memory.unknown[self.name] = change
            raise
        if status == 200:
            self._changes.append(change)
            self._seen = max(self._seen, answer["seq"])
        return status

    def label(self, server: Server, _journal: Path) -> None:
        numbers = [number for number, _ in server.ask("/api/state")[1]["classes"]]
        photos = self._random.sample(self._photos, self._random.randint(1, len(self._photos)))
        label = self._random.choice([None, *numbers])
        if self._send(server, "/api/labels", "label", {"photos": photos, "label": label}) == 409:
            raise Failure("a tab conflicts with itself", f"{photos} {label}")

    def add(self, server: Server, _journal: Path) -> None:
        names = [f"{self.name}-{self._counter + i}" for i in range(self._random.choice((1, 1, 3)))]
        self._counter += len(names)
        self._send(server, "/api/classes", "add", {"action": "add", "names": names})

    def change(self, server: Server, _journal: Path) -> None:
        own = [number for number, name in server.ask("/api/state")[1]["classes"] if name.startswith(self.name)]
        if not own:
            return
        values: dict[str, Any] = {"class": self._random.choice(own), "action": "remove"}
        if self._random.random() < 0.6:
            self._counter += 1
            values |= {"action": "rename", "name": f"{self.name}-{self._counter}"}
        self._send(server, "/api/classes", values["action"], values)

    def undo(self, server: Server, _journal: Path) -> None:
        self._send(server, "/api/undo", "undo", {})

    def redo(self, server: Server, journal: Path) -> None:
        """Redo what this tab has just undone; the page knows its number from the history."""
        if self._changes and self._changes[-1].kind == "undo":
            last = [line for line in journal_lines(journal) if line.get("tab") == self.name][-1]
            self._send(server, "/api/undo", "redo", {"of": last["of"], "redo": True})

    def read(self, server: Server, _journal: Path) -> None:
        for path in ("/api/history", "/api/training", "/api/exports", "/api/view?order=useful", "/api/review"):
            server.ask(path)


def work(random: Random, server: Server) -> None:
    """Train and export, whatever the tabs do."""
    try:
        for _ in range(3):
            action, kind = random.choice(("start", "resume", "stop")), random.choice(("sort", "onnx"))
            server.ask("/api/training", {"action": action, "start": "scratch"})
            server.ask("/api/exports", {"kind": kind, "link": True})
            time.sleep(random.uniform(0, 0.5))
    except GoneError:
        return


def disturb(random: Random, event: str, server: Server, project: Path) -> None:
    """Let something happen to the Studio while the tabs work."""
    time.sleep(random.uniform(0, 0.8))
    if event in ("kill", "stop"):
        server.end(signal.SIGKILL if event == "kill" else signal.SIGTERM)
    elif event == "full disk":
        _, hard = resource.prlimit(server.pid, resource.RLIMIT_FSIZE)
        size = (project / "journal.jsonl").stat().st_size + random.randint(0, 300)
        resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (size, hard))
        time.sleep(random.uniform(0, 0.4))
        resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (hard, hard))
    elif event == "read-only folder":
        folders = [project, *(path for path in project.rglob("*") if path.is_dir() and not path.is_symlink())]
        for folder in folders:
            folder.chmod(0o555)


def writable(project: Path) -> None:
    for folder in (project, *project.rglob("*")):
        if folder.is_dir() and not folder.is_symlink():
            folder.chmod(0o755)


def verify(server: Server, memory: Memory) -> None:
    status, csv = server.raw("/labels.csv")
    memory.check(server.ask("/api/state")[1], csv.decode(), FIRST)
    for path in ("/api/classes", "/api/history", "/api/training", "/api/exports", "/api/review"):
        status, answer = server.ask(path)
        if status != 200:
            raise Failure(f"{path} is refused after the disturbance", str(answer))


def case(case: Case) -> str:
    originals, random, project = case.originals, case.random, case.folder / "project"
    journal = project / "journal.jsonl"
    shutil.copytree(originals.project, project)
    memory = Memory([f"{number:02}.png" for number in range(PHOTOS)])
    count = random.choice((1, 2, 3))
    tabs = [Tab(f"tab{i}", Random(random.random()), list(range(i, PHOTOS, count)), memory) for i in range(count)]
    event, has_jobs = random.choice(EVENTS), random.random() < 0.1
    with studio(originals, project, case.folder) as server, ThreadPoolExecutor(count + 1) as threads:
        running = [threads.submit(tab.run, server, journal, 40) for tab in tabs]
        running += [threads.submit(work, Random(random.random()), server)] if has_jobs else []
        disturb(random, event, server, project)
        for each in running:
            each.result()
    memory.settle(journal)
    stages = ("as it is", "whole", "damaged") if event == "read-only folder" else ("as it is", "damaged")
    for stage in stages:
        if stage == "damaged":  # a Studio that was closed has a copy of every line, if it could write
            damage_line(random, journal)
        with studio(originals, project, case.folder) as server:
            verify(server, memory)
            if server.ask("/api/undo", {"tab": "new"})[0] != 400:
                raise Failure("a new tab could undo something", "")
        writable(project)
    return event + (" and jobs" if has_jobs else "")


def damage_line(random: Random, journal: Path) -> None:
    lines = journal.read_bytes().splitlines(keepends=True)
    number = random.randrange(len(lines))
    place = random.randrange(len(lines[number]) - 1)
    changed = bytes([lines[number][place] ^ 1 << random.randrange(7)])
    lines[number] = lines[number][:place] + changed + lines[number][place + 1 :]
    journal.write_bytes(b"".join(lines))


ATTACK = Attack("studio", cases=100, minutes=4, case=case, prepare=prepare, limit=200, memory=None)
