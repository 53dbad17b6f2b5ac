"""Start several processes on this machine with torchrun's own agent, run inside this process to keep exit codes."""

from __future__ import annotations

import faulthandler
import logging
import multiprocessing
import os
import signal
import sys
import threading
import time
import uuid
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


# How often a worker that dies is restarted, together with the others, from the last checkpoint.
RESTARTS = 3
# Imported once by the process that the workers are forked from: the run, and what it imports on the way.
PRELOADED = ("semco.experiment", "sklearn.cluster", "torch._dynamo")


def launch(processes: int, work: Callable[..., int], *arguments: object) -> int:
    """Call ``work(*arguments)``, which returns an exit code, in several processes; return their common exit code.

    Signals are passed to the processes, which have `TORCH_ELASTIC_SHUTDOWN_TIMEOUT` (30) seconds to save. If this
    process is killed, they end as well (`semco.distributed.launch`).
    """
    from torch.distributed.elastic.multiprocessing import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // processes)))
    quiet = os.environ.get("PYTHONWARNINGS"), "ignore:resource_tracker:UserWarning"  # if this process is killed
    os.environ["PYTHONWARNINGS"] = ",".join(filter(None, quiet))
    multiprocessing.set_forkserver_preload(list(PRELOADED))
    methods = multiprocessing.get_all_start_methods()
    logging.disable(logging.WARNING)  # the agent warns of every process that it ends, also on request
    config = LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=processes,
        run_id=str(uuid.uuid4()),
        rdzv_backend="c10d",
        rdzv_endpoint="localhost:0",
        local_addr="localhost",
        max_restarts=RESTARTS,
        start_method="forkserver" if "forkserver" in methods else "spawn",
    )
    if hasattr(config, "signals_to_handle"):  # torch 2.8 has a fixed list
        config.signals_to_handle += ",SIGUSR1"
    try:
        codes: dict[int, int] = elastic_launch(config, _work)(work, *arguments)
    except SignalException as stopped:
        return 128 + int(stopped.sigval)
    except ChildFailedError as failed:
        _, failure = failed.get_first_failure()
        return failure.exitcode if failure.exitcode > 0 else 128 - failure.exitcode
    return max(codes.values())


def _work(work: Callable[..., int], *arguments: object) -> int:
    """Run in a worker. A code above 128, caused by a signal, must end the process, because the agent waits for that."""
    code = work(*arguments)
    if code > 128:
        exit_without_parent(code)
        sys.exit(code)
    return code
