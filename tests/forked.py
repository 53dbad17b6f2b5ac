"""Processes that are forked from one that has imported the package, because that import takes seconds.

They are processes like any other, except that they have nothing to import: what happens to a process before that is
tested in tests/cli/test_signals_cli.py.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import sys
import tempfile
from collections.abc import Callable, Sequence
from multiprocessing.context import ForkServerContext
from pathlib import Path

from semco.cli.main import main
from semco.distributed.launch import PRELOADED

# With the modules of the tests that start processes, and what these import.
_MODULES = [*PRELOADED, "semco.cli.main", "tests.cli.held", "tests.distributed.test_distributed"]
_STREAMS = "output.txt", "errors.txt"


def fork_server() -> ForkServerContext:
    """Return the context whose processes are forked; the first one waits for the imports."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(_MODULES)
    return context


class Forked:
    """The command line in a forked process, with the methods of `subprocess.Popen` that tests use.

    ``function``, which is to call the command line, is called with ``values``; ``arguments`` are those of the command.
    """

    def __init__(
        self,
        arguments: Sequence[object],
        function: Callable[..., None] = main,
        values: Sequence[object] = (),
        cwd: Path | None = None,
    ) -> None:
        self._folder = tempfile.TemporaryDirectory()
        command = ["semco", *map(str, arguments)]
        given = dict(os.environ), str(cwd or Path.cwd()), self._folder.name, command, function, values
        self._process = fork_server().Process(target=_run, args=given, daemon=True)
        self._process.start()
        assert self._process.pid is not None
        self.pid: int = self._process.pid

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def poll(self) -> int | None:
        return self.returncode

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """Wait for the end, and return what was written to the standard output and error streams."""
        self._process.join(timeout)
        assert self.returncode is not None, "it hangs"
        with self._folder as folder:
            output, errors = (Path(folder, name).read_text(encoding="utf-8") for name in _STREAMS)
        return output, errors


def _run(
    environment: dict[str, str],
    cwd: str,
    folder: str,
    command: list[str],
    function: Callable[..., None],
    values: Sequence[object],
) -> None:
    """Become a process as a shell starts it, with the environment of the test, and call the function."""
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(cwd)
    sys.argv = command
    gc.enable()  # tests/conftest.py disables it
    multiprocessing.process._parent_process = None  # type: ignore[attr-defined]
    multiprocessing.current_process()._config["daemon"] = False  # type: ignore[attr-defined]
    for number, name in enumerate(_STREAMS, start=1):
        os.dup2(os.open(Path(folder, name), os.O_WRONLY | os.O_CREAT | os.O_APPEND), number)
    sys.stdout, sys.stderr = (os.fdopen(number, "w", buffering=1, encoding="utf-8") for number in (1, 2))
    function(*values)
