"""A Python that starts at once: its processes are forked from one that has imported torch and the package.

That import takes four seconds of a processor, and the tests start some thirty processes. They are processes like any
other, with their own streams, signals and exit codes, except that they have nothing to import: what happens to a
process before that is tested in tests/cli/test_signals_cli.py, with Python itself.

`server` is the process that forks. `client` is the program that stands for Python: it asks the server for a process,
passes it signals, and ends as it does.
"""

from __future__ import annotations

import atexit
import multiprocessing
import os
import shlex
import socket
import subprocess
import sys
import tempfile
from multiprocessing.context import ForkServerContext
from pathlib import Path

from semco.distributed.launch import PRELOADED

CLIENT = "SEMCO_TESTS_PYTHON"  # the environment variable with the program that stands for Python


def forked_python() -> str:
    """Return the path of the program; the first process that it starts waits for the imports."""
    return os.environ.get(CLIENT) or start_server()


def fork_server() -> ForkServerContext:
    """Return a context of `multiprocessing` that needs no imports either."""
    multiprocessing.set_executable(forked_python())
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(PRELOADED))
    return context


def start_server() -> str:
    """Start the process that forks, which ends with this one, and return the path of the program that asks it."""
    folder = tempfile.TemporaryDirectory()
    client = Path(folder.name, "python")
    # Its second line starts Python in the shell, and is a text in Python: a path after "#!" could have no spaces.
    start = f"""#!/bin/sh\n'''exec' {shlex.quote(sys.executable)} -IS "$0" "$@"\n' '''\n"""
    client.write_text(start + Path(__file__).with_name("client.py").read_text(encoding="utf-8"), encoding="utf-8")
    client.chmod(0o755)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(client.with_name("socket")))
        listener.listen(64)
        server = subprocess.Popen(
            [sys.executable, "-m", "tests.forking.server", folder.name, str(listener.fileno())],
            stdin=subprocess.PIPE,
            cwd=Path(__file__).parents[2],
            pass_fds=[listener.fileno()],
        )

    def end() -> None:
        assert server.stdin is not None
        server.stdin.close()
        server.wait()
        folder.cleanup()

    atexit.register(end)
    os.environ[CLIENT] = str(client)
    return str(client)


def start_semco(*arguments: object, cwd: Path | None = None) -> subprocess.Popen[str]:
    """Start the command line with these arguments."""
    return start_python("-m", "semco", *arguments, cwd=cwd)


def start_python(*arguments: object, cwd: Path | None = None) -> subprocess.Popen[str]:
    """Start Python with these arguments; what it prints can be read."""
    command = [forked_python(), *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=cwd)


def stands_for(client: int) -> int | None:
    """Return the process for which a client stands."""
    file = Path(os.environ[CLIENT]).with_name(str(client))
    return int(file.read_text()) if file.exists() else None
