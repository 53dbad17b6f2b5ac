"""A process that another one started for its work ends when that one has died, for example by SIGKILL."""

from __future__ import annotations

import faulthandler
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

# Seconds for the processes to save after the parent's death, as many as torchrun gives them, and between two checks.
GRACE, INTERVAL = 30.0, 0.5
# Seconds after which a process that hangs while Python ends is ended.
LAST_GRACE = 10.0
# The environment variable that holds the number of the process with which this one ends.
PARENT = "SEMCO_PARENT"


def has_parent() -> bool:
    """Return whether this process was started as a part of the work of another one (`parent_environment`)."""
    return PARENT in os.environ


def parent_environment() -> dict[str, str]:
    """Return what to add to the environment of a command that is to end when this process dies."""
    return {PARENT: str(os.getpid())}


def end_with_parent() -> None:
    """Stop this process as SIGTERM does when its parent dies: at the next step, after the run was saved.

    Without this, workers would continue to train unnoticed. A second call does nothing.
    """
    wait = _wait_for_death()
    if wait is not None and not any(thread.name == _watch.__name__ for thread in threading.enumerate()):
        threading.Thread(target=_watch, args=(wait,), name=_watch.__name__, daemon=True).start()


def exit_without_parent(code: int) -> None:
    """End this worker at once if its parent has died: torch would wait for the parent's store when Python ends."""
    parent = multiprocessing.parent_process()
    if parent is not None and not parent.is_alive():
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _wait_for_death() -> Callable[[], object] | None:
    """Return a function that blocks until the parent exits, or None if the parent may end before this process.

    A process of `multiprocessing`, such as those of `semco.distributed.launch`, knows its parent by a pipe, because the
    parent of the operating system may be the server that forks all of them. A process of torchrun gets another parent
    when torchrun dies, and so does a command with a `parent_environment`. The shell that started any other process in
    the background may end.
    """
    if (parent := multiprocessing.parent_process()) is not None:
        return parent.join
    if has_parent():
        return partial(_wait_for_another_parent, int(os.environ[PARENT]))
    return partial(_wait_for_another_parent, os.getppid()) if "TORCHELASTIC_RUN_ID" in os.environ else None


def _wait_for_another_parent(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(INTERVAL)


def _watch(wait_for_death: Callable[[], object]) -> None:
    wait_for_death()
    os.kill(os.getpid(), signal.SIGTERM)
    _exit_later(GRACE + LAST_GRACE)
    time.sleep(GRACE)  # a process that waits for another one, which has ended, does not come to its next step
    os._exit(128 + signal.SIGTERM)


def _exit_later(seconds: float) -> None:
    """End this process after so many seconds, also if Python is ending already and runs no thread of ours any more."""
    faulthandler.dump_traceback_later(seconds, exit=True, file=Path(os.devnull).open("w"))  # noqa: SIM115
