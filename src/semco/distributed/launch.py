"""Start several processes on this machine with torchrun's own agent, run inside this process to keep exit codes."""

from __future__ import annotations

import logging
import multiprocessing
import os
import sys
import uuid
from collections.abc import Callable

from semco.distributed.parent import exit_without_parent

# How often a worker that dies is restarted, together with the others, from the last checkpoint.
RESTARTS = 3
# Imported once by the process that the workers are forked from: the run, and what it imports on the way.
PRELOADED = ("semco.experiment", "sklearn.cluster", "torch._dynamo")


def launch(processes: int, work: Callable[..., int], *arguments: object) -> int:
    """Call ``work(*arguments)``, which returns an exit code, in several processes; return their common exit code.

    Signals are passed to the processes, which have `TORCH_ELASTIC_SHUTDOWN_TIMEOUT` (30) seconds to save. If this
    process is killed, they end as well (`semco.distributed.parent`).
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
