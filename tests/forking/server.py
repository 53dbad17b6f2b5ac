"""The process that forks: it imports the package once, and then runs a program for every client that asks."""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import gc
import importlib
import json
import multiprocessing
import os
import runpy
import selectors
import signal
import socket
import sys
import threading
import types
import warnings
from pathlib import Path
from typing import Any

from semco.distributed.launch import PRELOADED
from semco.training import execution
from tests.tiny_backbone import add_tiny_backbone

MODULES = (
    *PRELOADED,
    "matplotlib.figure",
    "pytest",
    "scipy.optimize",
    "scipy.sparse.csgraph",
    "benchmarks.worker",
    "semco.cli.main",
    "semco.cli.compare",
    "semco.cli.train",
    "tests.cli.held",
    "torch.distributed.launcher.api",
)
ABOVE_ALL = 500  # number of a handle that no program asks for
LENGTH = 8  # bytes before a request that say how long it is


class Server:
    """Forks a process for each request, tells its client the process and its end, and ends it with its client."""

    def __init__(self, folder: Path, listener: int) -> None:
        self._folder = folder
        self._clients: dict[int, socket.socket] = {}
        self._selector = selectors.DefaultSelector()
        self._listener = socket.socket(fileno=listener)

    def serve(self) -> dict[str, Any] | None:
        """Return a request in the process that was forked for it, and None when the tests have ended."""
        ended, signalled = os.pipe()
        os.set_blocking(signalled, False)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C in a terminal is for the tests
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(signalled)
        for source in (self._listener, ended, sys.stdin):
            self._selector.register(source, selectors.EVENT_READ)
        while True:
            for key, _ in self._selector.select():
                if key.fileobj is sys.stdin:
                    return None
                if key.fileobj is self._listener:
                    if (request := self._fork()) is not None:
                        os.close(ended)
                        os.close(signalled)
                        return request
                elif key.fileobj == ended:
                    os.read(ended, 4096)
                    self._report_ends()
                else:  # a client that was killed
                    self._selector.unregister(key.fileobj)
                    os.kill(key.data, signal.SIGKILL)

    def _fork(self) -> dict[str, Any] | None:
        client, _ = self._listener.accept()
        try:
            start, handles, _, _ = socket.recv_fds(client, LENGTH, 250)
            with client.makefile("rb") as stream:
                request: dict[str, Any] = json.loads(stream.read(int.from_bytes(start, "big")))
        except (OSError, ValueError):  # the client was killed while it wrote its request
            client.close()
            return None
        pid = os.fork()
        if pid == 0:
            signal.set_wakeup_fd(-1)
            self._selector.close()
            for each in (self._listener, client, *self._clients.values()):
                each.close()
            return request | {"given": handles}
        for handle in handles:
            os.close(handle)
        (self._folder / str(request["client"])).write_text(str(pid))
        self._clients[pid] = client
        self._selector.register(client, selectors.EVENT_READ, pid)
        tell(client, pid)
        return None

    def _report_ends(self) -> None:
        while self._clients:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            client = self._clients.pop(pid)
            if client in self._selector.get_map():
                self._selector.unregister(client)
                tell(client, os.waitstatus_to_exitcode(status))
            client.close()


def tell(client: socket.socket, number: int) -> None:
    """Send a number to a client, unless that was killed: then its connection is at its end, which `serve` notices."""
    with contextlib.suppress(OSError):
        client.sendall(f"{number}\n".encode())


def become(request: dict[str, Any]) -> None:
    """Give this process the handles, environment, folder and signals of the one that its client was started as."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    moved = [fcntl.fcntl(handle, fcntl.F_DUPFD, ABOVE_ALL) for handle in request["given"]]
    for handle in request["given"]:
        os.close(handle)
    for handle, wanted in zip(moved, request["handles"], strict=True):
        os.dup2(handle, wanted)
        os.close(handle)
    sys.stdin = os.fdopen(0, closefd=False)
    sys.stdout = os.fdopen(1, "w", closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, errors="backslashreplace", closefd=False)
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["cwd"])
    for option in filter(None, os.environ.get("PYTHONWARNINGS", "").split(",")):
        warnings._setoption(option)  # type: ignore[attr-defined]
    # What this program starts is forked, too; and whoever asks for its parent means that of its client.
    sys.executable = request["executable"]
    multiprocessing.set_executable(sys.executable)
    os.getppid = lambda: parent_of(request["client"])
    import torch

    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", os.cpu_count() or 1)))


def parent_of(process: int) -> int:
    try:
        return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:  # it has ended
        return 1


def run(arguments: list[str]) -> None:
    """Run ``-m MODULE ...`` or ``-c CODE ...`` as Python does, whose other options have no meaning here."""
    while arguments[0] not in ("-m", "-c"):
        del arguments[0]
    kind, program, *rest = arguments
    if kind == "-m":
        sys.argv = [program, *rest]
        runpy.run_module(program, run_name="__main__", alter_sys=True)
    else:
        sys.argv = ["-c", *rest]
        sys.modules["__main__"] = types.ModuleType("__main__")
        exec(compile(program, "<string>", "exec"), vars(sys.modules["__main__"]))


def end(code: int) -> None:
    """End this process as Python does, without taking all modules apart, which takes longer than most programs."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        if not stream.closed:
            stream.flush()
    os._exit(code)


def main() -> dict[str, Any] | None:
    server = Server(Path(sys.argv[1]), int(sys.argv[2]))
    for name in MODULES:
        importlib.import_module(name)
    execution.SECONDS = 0.0  # as in tests/conftest.py, and so is the next line
    add_tiny_backbone()
    # Each message of torchrun's agent names the function that sends it, for which all modules are searched: 20 ms.
    sys.modules["torch.distributed.elastic.rendezvous.dynamic_rendezvous"].get_method_name = lambda **_: ""
    gc.collect()
    gc.freeze()
    return server.serve()


if __name__ == "__main__":
    request = main()
    if request is not None:
        become(request)
        try:
            run(request["arguments"])
        except SystemExit as ended:
            if isinstance(ended.code, str):
                sys.stderr.write(f"{ended.code}\n")
            end(ended.code if isinstance(ended.code, int) else int(ended.code is not None))
        except Exception:
            sys.excepthook(*sys.exc_info())
            end(1)
        end(0)
