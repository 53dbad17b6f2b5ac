"""A process of several ends when the process that started it has died, for example by SIGKILL."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable
from functools import partial

# Seconds for the processes to save after the parent's death, as many as torchrun gives them, and between two checks.
GRACE, INTERVAL = 30.0, 0.5


def end_with_parent() -> None:
    """Stop this process as SIGTERM does when its parent dies: at the next step, after the run was saved.

    Without this, workers would continue to train unnoticed. A second call does nothing.
    """
    wait = _wait_for_death()
    if wait is not None and not any(thread.name == _watch.__name__ for thread in threading.enumerate()):
        threading.Thread(target=_watch, args=(wait,), name=_watch.__name__, daemon=True).start()


def _wait_for_death() -> Callable[[], object] | None:
    """Return a function that returns when the parent has died, or None if the parent may end before this process.

    A process of `multiprocessing`, such as those of `semco.distributed.launch`, knows its parent by a pipe, because the
    parent of the operating system may be the server that forks all of them. A process of torchrun gets another parent
    when torchrun dies. The shell that started any other process in the background may end.
    """
    if (parent := multiprocessing.parent_process()) is not None:
        return parent.join
    return partial(_wait_for_another_parent, os.getppid()) if "TORCHELASTIC_RUN_ID" in os.environ else None


def _wait_for_another_parent(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(INTERVAL)


def _watch(wait_for_death: Callable[[], object]) -> None:
    wait_for_death()
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(GRACE)  # a process that waits for another one, which has ended, does not come to its next step
    os._exit(128 + signal.SIGTERM)
