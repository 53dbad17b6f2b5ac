"""How time and memory of a SemCo+ step grow with one quantity at a time, while all others stay the same."""

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

from benchmarks.synthetic import Setting
from benchmarks.worker import StepTimes, Worker, start_worker, summarise
from semco.files import atomic_path

SMALL = Setting(backbone="wrn-10-1", batch_size=16)
TINY = Setting(backbone="wrn-10-1", batch_size=4, mu=2, classes=6, image_size=16, pool=100)
# Exponents above this count as faster than linear; the margin allows for noise.
SUPERLINEAR = 1.15
Row = dict[str, Any]


@dataclass(frozen=True)
class Axis:
    """A quantity that grows: a field of `Setting`, or the number of processes."""

    field: str
    title: str
    sizes: tuple[int, ...]

    def setting(self, base: Setting, size: int) -> Setting:
        """Return the setting with this field set to ``size``."""
        if self.field == "processes":
            return base
        return replace(base, **{self.field: size})  # type: ignore[arg-type]


AXES = (
    Axis("batch_size", "labelled images per step", (8, 16, 32, 64)),
    Axis("image_size", "side of an image, pixels", (16, 32, 64, 96)),
    Axis("classes", "classes", (10, 100, 1000, 10_000)),
    Axis("pool", "unlabelled images", (1000, 10_000, 100_000, 1_000_000)),
    Axis("processes", "processes", (1, 2)),
)
TINY_AXES = (Axis("batch_size", "labelled images per step", (2, 4)), Axis("processes", "processes", (1, 2)))


def bench_scale(threads: int = 2, repeats: int = 5, quick: bool = False) -> dict[str, Any]:
    """Measure every axis; ``quick`` uses two tiny axes, to try out the measurement itself."""
    base, axes = (TINY, TINY_AXES) if quick else (SMALL, AXES)
    return {
        "setting": asdict(base),
        "threads": threads,
        "repeats": repeats,
        "axes": {axis.field: {"title": axis.title, "rows": measure(axis, base, threads, repeats)} for axis in axes},
    }


def measure(axis: Axis, base: Setting, threads: int, repeats: int) -> list[Row]:
    """Return one row per size; the sizes take turns step by step, and the best step of each counts."""
    if axis.field == "pool":
        base = replace(base, image_size=16)  # a million images of this size take 0.8 GB
    with ExitStack() as stack:
        teams = [_start_team(stack, axis, base, size, threads) for size in axis.sizes]
        for team in teams:
            _step(team)
        rounds = [[_step(team) for team in teams] for _ in range(repeats)]
    rows = [{"size": size, **_summarise_team([steps[i] for steps in rounds])} for i, size in enumerate(axis.sizes)]
    return add_exponents(rows, axis.field)


def _start_team(stack: ExitStack, axis: Axis, base: Setting, size: int, threads: int) -> list[Worker]:
    """Start the processes that train one size together: several on the axis of processes, otherwise one."""
    setting = axis.setting(base, size)
    if axis.field != "processes":
        return [stack.enter_context(start_worker(setting, threads))]
    address = {"MASTER_ADDR": "localhost", "MASTER_PORT": str(free_port()), "WORLD_SIZE": str(size)}
    threads_each = max(1, threads // max(axis.sizes))  # a single process gets no more threads than each of several
    return [
        stack.enter_context(
            start_worker(setting, threads_each, {**address, "RANK": str(rank), "LOCAL_RANK": str(rank)})
        )
        for rank in range(size)
    ]


def free_port() -> int:
    """Return a free port below the range from which systems assign ports to outgoing connections."""
    while True:
        with socket.socket() as free:
            port = random.randrange(15_000, 32_000)
            with suppress(OSError):
                free.bind(("127.0.0.1", port))
                return port


def _step(team: Sequence[Worker]) -> list[StepTimes]:
    for worker in team:
        worker.start_step()
    return [worker.finish_step() for worker in team]


def _summarise_team(steps: Sequence[Sequence[StepTimes]]) -> dict[str, float]:
    """Return the time of the slowest process and the memory of all processes together."""
    summaries = [summarise(times) for times in zip(*steps, strict=True)]
    return {
        "wall_s": max(summary["wall_s"] for summary in summaries),
        "cpu_s": max(summary["cpu_s"] for summary in summaries),
        "memory_mb": round(sum(summary["memory_mb"] for summary in summaries), 1),
    }


def add_exponents(rows: Sequence[Row], field: str) -> list[Row]:
    """Return the rows with the exponents by which time and memory have grown since the previous row.

    An exponent of 1 is linear growth. Images grow with the number of their pixels, the square of their side.
    """
    dimensions = 2 if field == "image_size" else 1
    extended: list[Row] = [{**row, "time_exponent": None, "memory_exponent": None} for row in rows[:1]]
    for previous, row in itertools.pairwise(rows):
        growth = dimensions * math.log(row["size"] / previous["size"])
        time = math.log(row["cpu_s"] / previous["cpu_s"]) / growth
        memory = math.log(max(row["memory_mb"], 1.0) / max(previous["memory_mb"], 1.0)) / growth
        extended.append({**row, "time_exponent": round(time, 2), "memory_exponent": round(memory, 2)})
    return extended


def describe_superlinear_growth(result: Mapping[str, Any]) -> list[str]:
    """Return one sentence for each size at which time or memory grew faster than linearly."""
    sentences = []
    for field, axis in result["axes"].items():
        for row in axis["rows"]:
            for cost in ("time", "memory"):
                exponent = row[f"{cost}_exponent"]
                if field != "processes" and exponent is not None and exponent > SUPERLINEAR:
                    size = f"{axis['title']} = {row['size']:,}"
                    sentences.append(f"{cost} grows faster than linearly up to {size} (exponent {exponent}).")
    return sentences


def draw_growth(result: Mapping[str, Any], file: Path) -> None:
    """Draw a figure with one column per axis, time above memory; all scales are logarithmic."""
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
    panels[0, 0].set_ylabel("CPU time per step, ms")
    panels[1, 0].set_ylabel("memory, MB")
    with atomic_path(file) as temporary:
        figure.savefig(temporary, format=file.suffix.lstrip(".") or "png", dpi=110)


def _curves(rows: Sequence[Row]) -> tuple[list[float], list[float]]:
    """Return CPU time in milliseconds and memory in megabytes."""
    return [1000 * row["cpu_s"] for row in rows], [row["memory_mb"] for row in rows]
