"""The options that say where runs or predictions are computed: on this machine, or by Ray. Each is declared once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from semco.errors import UserError

if TYPE_CHECKING:
    from semco.distributed.cluster import RayOptions
    from semco.experiment.engines import Engine
    from semco.experiment.engines.shards import Shard


@dataclass(frozen=True)
class ClusterOptions:
    """The address of Ray and the resources of each task; None for options that were not given."""

    address: Annotated[
        str | None,
        typer.Option(help="Ray: auto, HOST:PORT or ray://HOST:PORT.", show_default="a Ray on this machine"),
    ] = None
    cpus: Annotated[float | None, typer.Option(help="Ray: CPUs per run or model.", show_default="1")] = None
    gpus: Annotated[float | None, typer.Option(help="Ray: GPUs per run or model, also 0.5.", show_default="0")] = None

    def on_ray(self) -> RayOptions:
        from semco.distributed.cluster import RayOptions

        return RayOptions(self.address, 1.0 if self.cpus is None else self.cpus, self.gpus or 0.0)

    def refuse(self) -> None:
        """Refuse options of Ray for another engine."""
        if (self.address, self.cpus, self.gpus) != (None, None, None):
            raise UserError("--address, --cpus and --gpus are for --engine ray.")


class EngineName(StrEnum):
    local = "local"
    ray = "ray"


@dataclass(frozen=True)
class EngineOptions(ClusterOptions):
    """The engine and the shard of the runs of `semco compare` and `semco reproduce`."""

    engine: Annotated[EngineName, typer.Option(help="What runs: processes here, or tasks of Ray.")] = EngineName.local
    jobs: Annotated[int | None, typer.Option(min=1, help="Local: runs side by side.", show_default="1")] = None
    shard: Annotated[str | None, typer.Option(help="Only part i of n of the runs, written i/n, for job arrays.")] = None

    def choose(self, say: Callable[[str], None]) -> Engine:
        from semco.experiment.engines.local import LocalEngine

        if self.engine is EngineName.local:
            self.refuse()
            return LocalEngine(self.jobs or 1)
        if self.jobs is not None:
            raise UserError("--jobs is for --engine local; with ray, --cpus and --gpus limit the runs side by side.")
        from semco.experiment.engines.ray_tasks import RayEngine

        return RayEngine(self.on_ray(), say)

    def part(self) -> Shard | None:
        from semco.experiment.engines.shards import Shard

        return None if self.shard is None else Shard.parse(self.shard)
