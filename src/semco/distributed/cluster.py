"""Ray: connect to a cluster, or start one on this machine, and check that its machines share a folder."""

from __future__ import annotations

import logging
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from semco.errors import UserError

EXTRA = "semco[ray]"
# A Ray that this process starts passes references and small messages only; Ray's least is 75 MiB.
OBJECT_STORE = 100 << 20
# Seconds that a machine has to write the probe: it may have to start a process first.
PROBE_SECONDS = 120.0


@dataclass(frozen=True)
class RayOptions:
    """Where Ray runs, and what one of its tasks needs."""

    address: str | None = None
    """``auto``, ``HOST:PORT`` or ``ray://HOST:PORT``; None starts a Ray on this machine and ends it."""
    cpus: float = 1.0
    gpus: float = 0.0

    def __post_init__(self) -> None:
        if self.cpus < 0 or self.gpus < 0 or not self.cpus + self.gpus:
            raise UserError(f"a task of Ray needs CPUs or GPUs, not {self.cpus:g} and {self.gpus:g}.")

    @property
    def resources(self) -> dict[str, Any]:
        return {"num_cpus": self.cpus, "num_gpus": self.gpus}

    @property
    def environment(self) -> dict[str, str]:
        """The variables of Ray's workers: as many threads as CPUs, as a process of the local engine has."""
        threads = os.environ.get("OMP_NUM_THREADS") or str(max(1, int(self.cpus)))
        return {"OMP_NUM_THREADS": threads}


@contextmanager
def connect(options: RayOptions) -> Iterator[Any]:
    """Yield the module ``ray`` while this process is connected; what was started for the block ends with it."""
    if find_spec("ray") is None:
        raise UserError(f"the engine ray needs Ray: pip install '{EXTRA}'.")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # what future versions do; else Ray warns
    import ray

    new: dict[str, Any] = (
        {"include_dashboard": False, "object_store_memory": OBJECT_STORE} if options.address is None else {}
    )
    try:
        ray.init(
            options.address or "local",
            runtime_env={"env_vars": options.environment},
            log_to_driver=False,
            logging_level=logging.ERROR,
            **new,
        )
    except (ConnectionError, ImportError, ValueError, RuntimeError) as error:
        raise UserError(f"Ray cannot be used at {options.address or 'this machine'}: {_first_line(error)}") from None
    try:
        yield ray
    finally:
        ray.shutdown()


def check_shared(ray: Any, folder: Path) -> int:
    """Return the number of machines; refuse a cluster of which one does not see the folder.

    A task on each machine writes a probe file, which is read here.
    """

    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy as OnNode

    folder.mkdir(parents=True, exist_ok=True)
    probe = ray.remote(num_cpus=0, max_retries=0)(write_probe)
    here, nodes = str(Path.cwd()), [node for node in ray.nodes() if node["Alive"]]
    probes = [(node["NodeManagerHostname"], folder / f".probe.{secrets.token_hex(4)}.tmp") for node in nodes]
    tasks = [
        probe.options(scheduling_strategy=OnNode(node["NodeID"], soft=False)).remote(here, str(file))
        for node, (_, file) in zip(nodes, probes, strict=True)
    ]
    try:
        for task, (host, file) in zip(tasks, probes, strict=True):
            try:
                ray.get(task, timeout=PROBE_SECONDS)
                is_seen = file.read_text(encoding="utf-8") == file.name
            except (ray.exceptions.RayError, OSError):
                is_seen = False
            if not is_seen:
                raise UserError(
                    f"{host} cannot write into {folder.absolute()} so that it is seen here: all machines must share "
                    "the present folder, the data and the folder of the results, and have the same SemCo."
                )
    finally:
        for _, file in probes:
            file.unlink(missing_ok=True)
    return len(nodes)


def write_probe(here: str, file: str) -> None:
    """Run on a machine of the cluster: write the name of a file into it."""
    os.chdir(here)
    Path(file).write_text(Path(file).name, encoding="utf-8")


def last_line(error: BaseException) -> str:
    """Return the last line of the message of an error of Ray, which ends with the error of the task."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
