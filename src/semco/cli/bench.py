"""``semco bench``: how fast the parts are, each as a ratio inside one run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.table import Table

app = typer.Typer(help="Measure speed, as ratios inside one run.", no_args_is_help=True)


@app.command()
def augment(
    size: int = typer.Option(32, min=8, help="Height and width of the images."),
    as_json: bool = typer.Option(False, "--json", help="Print one JSON object."),
) -> None:
    """Weak and strong views, against a Pillow loop that makes the same ones, on one core."""
    from semco.bench.augment import augment as measure

    result = measure(size=size)
    if as_json:
        typer.echo(json.dumps(result))
        return
    table = Table("views", "ours, us an image", "Pillow, us an image", "times faster", box=None)
    for kind, ratio in result["ratio"].items():
        table.add_row(kind, str(result["ours_us"][kind]), str(result["pillow_us"][kind]), str(ratio))
    Console().print(table)


@app.command()
def step(
    quick: bool = typer.Option(False, help="A trial of the measurement on next to nothing, in a minute."),
    threads: int = typer.Option(2, min=1, help="Threads of each process."),
    repeats: int = typer.Option(8, min=1, help="Steps of each way, of which the best and the median count."),
    compiled: bool = typer.Option(True, help="Measure torch.compile too, which takes a minute or more."),
    as_json: bool = typer.Option(False, "--json", help="Print one JSON object."),
) -> None:
    """A step of SemCo, against the authors' way of doing it: time, memory, and what it is spent on."""
    from semco.bench.step import step as measure

    result = measure(threads=threads, repeats=repeats, quick=quick, compiled=compiled)
    if as_json:
        typer.echo(json.dumps(result))
        return
    for table in _step_tables(result):
        Console().print(table)


def _step_tables(result: dict[str, Any]) -> list[Table]:
    columns = [
        ("best on the cores, s", "cpu_s"),
        ("times faster", "times_faster"),
        ("median by the clock, s", "median_wall_s"),
        ("times faster", "times_faster_usually"),
        ("memory, MB", "memory_mb"),
        ("of the authors'", "memory_ratio"),
    ]
    ways = Table("way", *(title for title, _ in columns), box=None)
    for name, way in result["ways"].items():
        ways.add_row(name, *(str(way[field]) for _, field in columns))
    cost = result["ways"].get("compiled", {})
    if cost:
        ways.caption = f"compiling: {cost['compile_cpu_s']} s on the cores, back after {cost['pays_after_steps']} steps"
    methods = Table("classes", "FixMatch, s", "SemCo, s", "above, %", box=None)
    for classes, row in result["semantics"].items():
        methods.add_row(classes, *map(str, row.values()))
    profile = Table("part", "ms on the cores", "%", box=None)
    for part, milliseconds in result["profile"]["parts_ms"].items():
        profile.add_row(part, str(milliseconds), str(result["profile"]["parts_percent"][part]))
    profile.caption = f"all but the network: {result['profile']['around_percent']} %"
    return [ways, methods, profile]


@app.command()
def scale(
    quick: bool = typer.Option(False, help="A trial of the measurement on next to nothing."),
    threads: int = typer.Option(2, min=1, help="Threads of each process."),
    repeats: int = typer.Option(5, min=1, help="Steps of each size, of which the best counts."),
    out: Path = typer.Option(None, help="Draw a figure into this file (png, svg, pdf)."),
    as_json: bool = typer.Option(False, "--json", help="Print one JSON object."),
) -> None:
    """Time and memory of a step over batch size, image size, classes, images in the pool and processes."""
    from semco.bench.scale import draw, worse_than_linear
    from semco.bench.scale import scale as measure

    result = measure(threads=threads, repeats=repeats, quick=quick)
    if out is not None:
        draw(result, out)
    if as_json:
        typer.echo(json.dumps(result))
        return
    table = Table("", "size", "step, ms on the cores", "grows by power", "memory, MB", "grows by power", box=None)
    for axis in result["axes"].values():
        for row in axis["rows"]:
            powers = ["" if row[f"{what}_power"] is None else str(row[f"{what}_power"]) for what in ("time", "memory")]
            milliseconds = f"{1000 * row['cpu_s']:.1f}"
            table.add_row(axis["title"], f"{row['size']:,}", milliseconds, powers[0], str(row["memory_mb"]), powers[1])
    Console().print(table)
    for sentence in worse_than_linear(result):
        Console().print(sentence)


@app.command("labels")
def label_vectors(
    full: bool = typer.Option(
        False, help="Also build a store from made-up files of the official sizes: 15 minutes, 25 GB of disk."
    ),
    size: float = typer.Option(1.0, min=0.001, max=1.0, help="With --full: this part of the official sizes."),
    as_json: bool = typer.Option(False, "--json", help="Print one JSON object."),
) -> None:
    """Reading vectors against gensim, opening a store of a million terms and looking names up in it."""
    from semco.bench.labels import bench_labels

    result = bench_labels(full, size)
    if as_json:
        typer.echo(json.dumps(result))
        return
    table = Table("what", "measured", box=None)
    for part, values in result.items():
        for name, value in values.items():
            shown = f"{value:.3g}" if isinstance(value, float) else str(value)
            table.add_row(f"{part}: {name.replace('_', ' ')}", shown)
    Console().print(table)
