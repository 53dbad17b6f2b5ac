"""How time and memory grow with one quantity at a time, while all others stay the same.

A SemCo+ step, the index of a pool without its pixels, and the fit of a semantic probe.
"""

from __future__ import annotations

import itertools
import math
import random
import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import nnls

from benchmarks.child import run_code
from benchmarks.pools import bench_pools
from benchmarks.synthetic import Setting
from benchmarks.worker import StepTimes, Worker, start_worker, summarise
from semco.errors import UserError
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
# Entries of the pools that are indexed; ten million take two minutes.
POOLS = (1000, 10_000, 100_000, 1_000_000)
TINY_AXES = (Axis("batch_size", "labelled images per step", (2, 4)), Axis("processes", "processes", (1, 2)))


def bench_scale(
    threads: int = 2, repeats: int = 5, quick: bool = False, most: int = POOLS[-1], axes: Sequence[str] = ()
) -> dict[str, Any]:
    """Measure every axis, or those of some names; ``quick`` uses two tiny ones, to try out the measurement itself.

    ``most``: entries of the largest pool that is indexed.
    """
    base, of_step = (TINY, TINY_AXES) if quick else (SMALL, AXES)
    measured: dict[str, tuple[str, Callable[[], list[Row]]]] = {
        axis.field: (f"step: {axis.title}", partial(measure, axis, base, threads, repeats)) for axis in of_step
    }
    if not quick:
        sizes = [*(size for size in POOLS if size < most), most]
        measured["index"] = ("index of a pool: entries", lambda: add_exponents(measure_pools(sizes), "index"))
        measured["labels"] = ("fit: labels", lambda: add_exponents(measure_fits(), "labels"))
    if unknown := set(axes) - set(measured):
        raise UserError(f"there is no axis {', '.join(sorted(unknown))}; choose among {', '.join(measured)}.")
    return {
        "setting": asdict(base),
        "threads": threads,
        "repeats": repeats,
        "axes": {
            name: with_line({"title": title, "rows": rows()}, name)
            for name, (title, rows) in measured.items()
            if name in (axes or measured)
        },
    }


def measure_pools(sizes: Sequence[int]) -> list[Row]:
    """Return the time of listing pools and identifying their pixels, and their memory; no image is read."""
    return [
        {"size": row["size"], "cpu_s": row["index_cpu_s"] + row["key_cpu_s"], "memory_mb": row["all_mib"]}
        for row in bench_pools(sizes)["rows"]
    ]


def measure_fits(repeats: int = 3) -> list[Row]:
    """Return the time and memory of fits of a semantic probe to random features, by the number of labels."""
    turns = [[run_code("fit", FIT_CODE, str(each)) for each in LABELS_PER_CLASS] for _ in range(repeats)]
    return [
        {
            "size": FIT_CLASSES * each,
            "cpu_s": min(turn[i]["fit_cpu_s"] for turn in turns),
            "memory_mb": min(turn[i]["memory_mb"] for turn in turns),
        }
        for i, each in enumerate(LABELS_PER_CLASS)
    ]


FIT_CLASSES, FIT_POOL, LABELS_PER_CLASS = 40, 4000, (1, 4, 16, 64)
FIT_CODE = f"""
import json, sys, torch
from benchmarks.fitted import bench_fitted
torch.set_num_threads(1)
print(json.dumps(bench_fitted({FIT_POOL}, {FIT_CLASSES}, int(sys.argv[1]))))
"""


def with_line(axis: dict[str, Any], field: str) -> dict[str, Any]:
    """Return an axis with the straight line through its times: seconds at size 0, and seconds per unit.

    The line has the least relative errors; neither part is below 0. Images count by the number of their pixels.
    """
    rows = axis["rows"]
    sizes = np.array([row["size"] ** _dimensions(field) for row in rows], float)
    seconds = np.array([row["cpu_s"] for row in rows])
    columns = np.stack([np.ones_like(sizes), sizes], axis=1) / seconds[:, None]
    fixed, per_unit = nnls(columns, np.ones_like(sizes))[0]
    return {**axis, "fixed_s": float(fixed), "s_per_unit": float(per_unit), "unit": UNITS.get(field, "unit")}


def _dimensions(field: str) -> int:
    return 2 if field == "image_size" else 1


UNITS = {
    "batch_size": "image", "image_size": "pixel", "classes": "class", "pool": "image", "processes": "process",
    "index": "entry", "labels": "label",
}  # fmt: skip


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
    dimensions = _dimensions(field)
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


def describe_line(axis: Mapping[str, Any]) -> str:
    """Return the constants of an axis: the time of size 0 and that of each further unit."""
    per_unit = axis["s_per_unit"]
    factor, name = next(((f, n) for f, n in ((1e3, "ms"), (1e6, "us")) if per_unit * f >= 0.9995), (1e9, "ns"))
    return f"{1000 * axis['fixed_s']:.3g} ms + {per_unit * factor:.3g} {name} per {axis['unit']}"


def growth_table(result: Mapping[str, Any]) -> str:
    """Return what grows, its costs at each size, the constants, and the largest exponents, as a table in Markdown."""
    lines = [
        "| what grows | sizes | CPU ms | that is about | memory, MB | largest exponents: time, memory |",
        "|---|---|---|---|---|---|",
    ]
    for axis in result["axes"].values():
        rows = axis["rows"]
        cells = [
            axis["title"],
            ", ".join(f"{row['size']:,}" for row in rows),
            ", ".join(f"{1000 * row['cpu_s']:,.0f}" for row in rows),
            describe_line(axis),
            ", ".join(f"{row['memory_mb']:,.0f}" for row in rows),
            ", ".join(str(max(row[f"{cost}_exponent"] for row in rows[1:])) for cost in ("time", "memory")),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


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
            panel.tick_params("x", labelrotation=45)
            panel.set_xticks([], minor=True)
            panel.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
            panel.yaxis.set_major_formatter("{x:,.0f}")
            panel.yaxis.set_minor_formatter("")
            panel.grid(alpha=0.3)
        panels[0, column].set_title(describe_line(axis), fontsize="small")
        panels[1, column].set_xlabel(axis["title"].replace(": ", "\n"))
    panels[0, 0].set_ylabel("CPU time, ms")
    panels[1, 0].set_ylabel("memory, MB")
    with atomic_path(file) as temporary:
        figure.savefig(temporary, format=file.suffix.lstrip(".") or "png", dpi=110)


def _curves(rows: Sequence[Row]) -> tuple[list[float], list[float]]:
    """Return CPU time in milliseconds and memory in megabytes."""
    return [1000 * row["cpu_s"] for row in rows], [row["memory_mb"] for row in rows]
