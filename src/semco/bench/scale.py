"""How the cost of a step grows: time and memory over one size after the other, the others held."""

from __future__ import annotations

import itertools
import math
import random
import socket
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from semco.bench.rehearsal import Setting
from semco.bench.worker import Took, Worker, best_of, worker
from semco.files import atomic_path

SMALL = Setting(backbone="wrn-10-1", batch_size=16)
TINY = Setting(backbone="wrn-10-1", batch_size=4, mu=2, classes=6, image_size=16, pool=100)
# Growth from one size to the next, as a power of it, from which "worse than linear" is said.
WORSE = 1.15
Row = dict[str, Any]


@dataclass(frozen=True)
class Axis:
    """One size that grows: a field of `Setting`, or the number of processes."""

    field: str
    title: str
    sizes: tuple[int, ...]

    def setting(self, base: Setting, size: int) -> Setting:
        if self.field == "processes":
            return base
        return replace(base, **{self.field: size})  # type: ignore[arg-type]


AXES = (
    Axis("batch_size", "labelled images a step", (8, 16, 32, 64)),
    Axis("image_size", "side of an image, pixels", (16, 32, 64, 96)),
    Axis("classes", "classes", (10, 100, 1000, 10_000)),
    Axis("pool", "unlabelled images", (1000, 10_000, 100_000, 1_000_000)),
    Axis("processes", "processes", (1, 2)),
)
TINY_AXES = (Axis("batch_size", "labelled images a step", (2, 4)), Axis("processes", "processes", (1, 2)))


def scale(threads: int = 2, repeats: int = 5, quick: bool = False) -> dict[str, Any]:
    """A table of rows for each axis; ``quick`` is a trial of the measurement itself."""
    base, axes = (TINY, TINY_AXES) if quick else (SMALL, AXES)
    return {
        "setting": asdict(base),
        "threads": threads,
        "repeats": repeats,
        "axes": {axis.field: {"title": axis.title, "rows": measure(axis, base, threads, repeats)} for axis in axes},
    }


def measure(axis: Axis, base: Setting, threads: int, repeats: int) -> list[Row]:
    """The sizes of an axis take turns, step by step; the best step of each counts."""
    if axis.field == "pool":
        base = replace(base, image_size=16)  # a million images of this side are 0.8 GB
    with ExitStack() as stack:
        crews = [_crew(stack, axis, base, size, threads) for size in axis.sizes]
        for crew in crews:
            _step(crew)
        turns = [[_step(crew) for crew in crews] for _ in range(repeats)]
    rows = [{"size": size, **_together([turn[i] for turn in turns])} for i, size in enumerate(axis.sizes)]
    return with_growth(rows, axis.field)


def _crew(stack: ExitStack, axis: Axis, base: Setting, size: int, threads: int) -> list[Worker]:
    """The processes that train one size together: one, but on the axis of processes."""
    setting = axis.setting(base, size)
    if axis.field != "processes":
        return [stack.enter_context(worker(setting, threads))]
    port = str(free_port())
    meeting = {"MASTER_ADDR": "localhost", "MASTER_PORT": port, "WORLD_SIZE": str(size)}
    each = max(1, threads // max(axis.sizes))  # as many threads for one process as for each of several
    return [
        stack.enter_context(worker(setting, each, {**meeting, "RANK": str(rank), "LOCAL_RANK": str(rank)}))
        for rank in range(size)
    ]


def free_port() -> int:
    """A port to listen on, below those that systems give to connections, which would come and go meanwhile."""
    while True:
        with socket.socket() as free:
            port = random.randrange(15_000, 32_000)
            with suppress(OSError):
                free.bind(("127.0.0.1", port))
                return port


def _step(crew: Sequence[Worker]) -> list[Took]:
    for one in crew:
        one.ask()
    return [one.answer() for one in crew]


def _together(steps: Sequence[Sequence[Took]]) -> dict[str, float]:
    """Of several processes: the slowest one's time, the memory of all."""
    each = [best_of(list(own)) for own in zip(*steps, strict=True)]
    return {
        "wall_s": max(one["wall_s"] for one in each),
        "cpu_s": max(one["cpu_s"] for one in each),
        "memory_mb": round(sum(one["memory_mb"] for one in each), 1),
    }


def with_growth(rows: Sequence[Row], field: str) -> list[Row]:
    """Each row with the power of the size by which time and memory have grown since the row before.

    An image is as many pixels as the square of its side.
    """
    power = 2 if field == "image_size" else 1
    grown: list[Row] = [{**row, "time_power": None, "memory_power": None} for row in rows[:1]]
    for before, row in itertools.pairwise(rows):
        more = power * math.log(row["size"] / before["size"])
        time_power = math.log(row["cpu_s"] / before["cpu_s"]) / more
        memory_power = math.log(max(row["memory_mb"], 1.0) / max(before["memory_mb"], 1.0)) / more
        grown.append({**row, "time_power": round(time_power, 2), "memory_power": round(memory_power, 2)})
    return grown


def worse_than_linear(result: Mapping[str, Any]) -> list[str]:
    """Sentences about the sizes at which time or memory grew faster than the size."""
    found = []
    for field, axis in result["axes"].items():
        for row in axis["rows"]:
            for what in ("time", "memory"):
                power = row[f"{what}_power"]
                if field != "processes" and power is not None and power > WORSE:
                    found.append(f"{what} grows as the {power} power of {axis['title']} at {row['size']}")
    return found


def draw(result: Mapping[str, Any], file: Path) -> None:
    """One figure: a column for each axis, time above and memory below; all scales are logarithmic."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import LogLocator

    axes = result["axes"]
    figure = Figure(figsize=(2.4 * len(axes), 4.2), layout="constrained")
    panels = figure.subplots(2, len(axes), sharex="col", sharey="row", squeeze=False)
    for column, axis in enumerate(axes.values()):
        sizes = [row["size"] for row in axis["rows"]]
        for panel, values in zip(panels[:, column], _curves(axis["rows"]), strict=True):
            panel.loglog(sizes, values, "o-")
            names = [f"{size:,}" if size < 10**5 else f"$10^{round(math.log10(size))}$" for size in sizes]
            panel.set_xticks(sizes, names)
            panel.set_xticks([], minor=True)
            panel.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
            panel.yaxis.set_major_formatter("{x:,.0f}")
            panel.yaxis.set_minor_formatter("")
            panel.grid(alpha=0.3)
        panels[1, column].set_xlabel(axis["title"])
    panels[0, 0].set_ylabel("step, ms on the cores")
    panels[1, 0].set_ylabel("memory, MB")
    with atomic_path(file) as temporary:
        figure.savefig(temporary, format=file.suffix.lstrip(".") or "png", dpi=110)


def _curves(rows: Sequence[Row]) -> tuple[list[float], list[float]]:
    """Milliseconds and megabytes."""
    return [1000 * row["cpu_s"] for row in rows], [row["memory_mb"] for row in rows]
