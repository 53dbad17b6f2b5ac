"""``python -m benchmarks``: speed and memory of the parts, each as ratios within one run."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Column, Table

from semco.cli.app import App

app = App(help="Measure speed and memory, as ratios within one run.", no_args_is_help=True)

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Quick = Annotated[bool, typer.Option(help="Try out the measurement on a tiny network.")]
Threads = Annotated[int, typer.Option(min=1, help="Threads per process.")]


@app.command()
def augment(
    size: Annotated[int, typer.Option(min=8, help="Height and width of the images.")] = 32,
    as_json: AsJson = False,
) -> None:
    """Time weak and strong views on one core, compared with a Pillow loop that makes the same views."""
    from benchmarks.augment import bench_augment

    result = bench_augment(size=size)
    _print(result, [_augment_table(result)], as_json)


def _augment_table(result: Mapping[str, Any]) -> Table:
    columns = {
        "SemCo, us per image": "ours_us",
        "Pillow, us per image": "pillow_us",
        "times faster": "ratio",
        "share of copying": "share_of_copying",
    }
    table = Table("views", *columns, box=None)
    for kind in result["ratio"]:
        table.add_row(kind, *(str(result[field][kind]) for field in columns.values()))
    return table


@app.command()
def step(
    quick: Quick = False,
    threads: Threads = 2,
    repeats: Annotated[int, typer.Option(min=1, help="Steps per variant; the best and the median count.")] = 8,
    as_json: AsJson = False,
) -> None:
    """Measure a training step of SemCo+, compared with the authors' way: time, memory, and a profile of its parts."""
    from benchmarks.step import bench_step

    result = bench_step(threads=threads, repeats=repeats, quick=quick)
    _print(result, _step_tables(result), as_json)


def _step_tables(result: Mapping[str, Any]) -> list[Table | str]:
    return [_variant_table(result["variants"]), _method_table(result["methods"]), _profile_table(result["profile"])]


def _variant_table(variants: Mapping[str, Mapping[str, Any]]) -> Table:
    columns = {
        "CPU time, best, s": "cpu_s",
        "times faster": "times_faster",
        "wall time, median, s": "median_wall_s",
        "times faster, median": "times_faster_median",
        "memory, MB": "memory_mb",
        "memory, ratio": "memory_ratio",
        "share of the peak": "share_of_peak",
    }
    table = Table(Column("SemCo+ step", no_wrap=True), *columns, box=None)
    for name, variant in variants.items():
        table.add_row(name, *(str(variant[field]) for field in columns.values()))
    return table


def _method_table(methods: Mapping[str, Mapping[str, float]]) -> Table:
    table = Table("classes", "FixMatch, s", "SemCo+, s", "SemCo+ takes more, %", box=None)
    for classes, row in methods.items():
        table.add_row(classes, *(str(row[field]) for field in ("fixmatch_cpu_s", "semco_plus_cpu_s", "extra_percent")))
    return table


def _profile_table(profile: Mapping[str, Any]) -> Table:
    table = Table("part of a SemCo+ step", "CPU time, ms", "%", box=None)
    for part, milliseconds in profile["parts_ms"].items():
        table.add_row(part, str(milliseconds), str(profile["parts_percent"][part]))
    table.caption = f"everything except the network: {profile['other_percent']} %"
    return table


@app.command()
def tune(
    size: Annotated[int, typer.Option(min=32, help="Height and width of the images.")] = 224,
    batch_size: Annotated[int, typer.Option(min=1, help="Labelled images per step; three times as many are not.")] = 16,
    quick: Quick = False,
    threads: Threads = 2,
    repeats: Annotated[int, typer.Option(min=1, help="Steps per mode; the best and the median count.")] = 5,
    as_json: AsJson = False,
) -> None:
    """Measure a step of SemCo+ on EfficientNet-Lite0 that trains the heads, the last stages, or all layers."""
    from benchmarks.tune import bench_tune

    result = bench_tune(image_size=size, batch_size=batch_size, threads=threads, repeats=repeats, quick=quick)
    _print(result, [_tune_table(result)], as_json)


def _tune_table(result: Mapping[str, Any]) -> Table:
    columns = {
        "CPU time, best, s": "cpu_s",
        "times faster": "times_faster",
        "wall time, median, s": "median_wall_s",
        "times faster, median": "times_faster_median",
        "memory, MB": "memory_mb",
    }
    table = Table(Column("trained", no_wrap=True), *columns, "frozen layers, ms per view", box=None)
    for mode, step in result["steps"].items():
        frozen = result["frozen"].get(mode, {}).get("ms_per_view", "")
        table.add_row(mode, *(str(step[field]) for field in columns.values()), str(frozen))
    table.caption = "times faster: than a step that trains all layers; frozen layers are computed once per view"
    return table


@app.command()
def engines(
    backbone: Annotated[str, typer.Option(help="The network.")] = "efficientnet-lite0",
    size: Annotated[int, typer.Option(min=32, help="Height and width of the images.")] = 224,
    threads: Threads = 2,
    repeats: Annotated[int, typer.Option(min=1, help="Turns of each engine; the best counts.")] = 5,
    as_json: AsJson = False,
) -> None:
    """Measure frozen layers in torch, ONNX Runtime and OpenVINO."""
    from benchmarks.engines import bench_engines

    result = bench_engines(backbone, size, threads, repeats)
    columns = ("ms per image", "CPU ms per image", "CPU s to load", "largest difference", "share of the peak")
    _print(result, [_rows_table("engine", columns, result["engines"])], as_json)


@app.command()
def predict(
    backbone: Annotated[str, typer.Option(help="The network.")] = "efficientnet-lite0",
    size: Annotated[int, typer.Option(min=32, help="Height and width of the images.")] = 224,
    photos: Annotated[int, typer.Option(min=1, help="Photos to predict.")] = 32,
    threads: Threads = 1,
    repeats: Annotated[int, typer.Option(min=1, help="Turns of each way; the best counts.")] = 3,
    as_json: AsJson = False,
) -> None:
    """Measure predictions of photos from their files, compared with a plain loop of Pillow and torch."""
    from benchmarks.predict import bench_predict

    result = bench_predict(backbone, size, photos, threads, repeats)
    columns = ("CPU ms per photo", "photos per CPU s", "times faster", "share of the limit", "largest difference")
    _print(result, [_rows_table("way", columns, result["ways"])], as_json)


def _rows_table(what: str, columns: Sequence[str], rows: Mapping[str, Mapping[str, float]]) -> Table:
    table = Table(what, *columns, box=None)
    for name, row in rows.items():
        table.add_row(name, *(f"{value:.3g}" for value in row.values()))
    return table


@app.command()
def fitted(
    pool: Annotated[int, typer.Option(min=1, help="Unlabelled photos.")] = 1_000_000,
    classes: Annotated[int, typer.Option(min=2, help="Classes.")] = 1000,
    labels: Annotated[int, typer.Option(min=1, help="Labelled photos per class.")] = 5,
    as_json: AsJson = False,
) -> None:
    """Measure a fit of a semantic probe to random features."""
    from benchmarks.fitted import bench_fitted

    result = bench_fitted(pool, classes, labels)
    _print(result, [_labels_table({"fit": result})], as_json)


@app.command()
def scale(
    quick: Quick = False,
    threads: Threads = 2,
    repeats: Annotated[int, typer.Option(min=1, help="Steps per size; the best counts.")] = 5,
    out: Annotated[Path | None, typer.Option(help="Draw a figure into this file (png, svg, pdf).")] = None,
    as_json: AsJson = False,
) -> None:
    """Measure how a step's time and memory grow with batch size, image size, classes, pool and processes."""
    from benchmarks.scale import bench_scale, describe_superlinear_growth, draw_growth

    result = bench_scale(threads=threads, repeats=repeats, quick=quick)
    if out is not None:
        draw_growth(result, out)
    _print(result, [_growth_table(result), *describe_superlinear_growth(result)], as_json)


def _growth_table(result: Mapping[str, Any]) -> Table:
    columns = (Column("quantity", no_wrap=True), "size", "CPU time per step, ms", "exponent", "memory, MB", "exponent")
    table = Table(*columns, box=None, caption="exponent: growth since the previous size; 1 is linear")
    for axis in result["axes"].values():
        for row in axis["rows"]:
            time, memory = ("" if x is None else str(x) for x in (row["time_exponent"], row["memory_exponent"]))
            milliseconds = f"{1000 * row['cpu_s']:.1f}"
            table.add_row(axis["title"], f"{row['size']:,}", milliseconds, time, str(row["memory_mb"]), memory)
    return table


@app.command()
def labels(
    full: Annotated[
        bool, typer.Option(help="Also build a store from synthetic files of the official sizes: 15 minutes, 25 GB.")
    ] = False,
    size: Annotated[
        float, typer.Option(min=0.001, max=1.0, help="With --full: the fraction of the official sizes.")
    ] = 1.0,
    as_json: AsJson = False,
) -> None:
    """Time reading vectors, compared with gensim, opening a store of a million terms and looking up names in it."""
    from benchmarks.labels import bench_labels

    result = bench_labels(full, size)
    _print(result, [_labels_table(result)], as_json)


@app.command()
def data(
    images: Annotated[int, typer.Option(min=100, help="JPEG files of 500 x 375 pixels to decode.")] = 10_000,
    entries: Annotated[int, typer.Option(min=1000, help="Unlabelled entries in a list.")] = 1_000_000,
    files: Annotated[int, typer.Option(min=10, help="Small files to scan.")] = 100_000,
    repeats: Annotated[int, typer.Option(min=1, help="Turns of the plain loop and our decoder.")] = 3,
    as_json: AsJson = False,
) -> None:
    """Measure decoding, compared with a Pillow loop in 2 processes, batches from the cache, and large listings."""
    from benchmarks.data import bench_data

    result = bench_data(images, entries, files, repeats)
    _print(result, [_labels_table({"data": result})], as_json)


@app.command()
def pools(
    most: Annotated[int, typer.Option(min=1000, help="Entries of the largest pool.")] = 10_000_000,
    as_json: AsJson = False,
) -> None:
    """Measure how start-up time and memory grow with the unlabelled pool, from 10,000 entries on; no pixels."""
    from benchmarks.pools import SIZES, bench_pools

    result = bench_pools([size for size in SIZES if size < most] + [most])
    _print(result, [_pools_table(result)], as_json)


def _pools_table(result: Mapping[str, Any]) -> Table:
    parts = ("index", "key", "order", "counts")
    columns = [f"{part}, {unit}" for part in parts for unit in ("CPU s", "MiB so far")]
    table = Table("entries", *columns, "peak, MiB", "growth of time", "growth of memory", box=None)
    for row in result["rows"]:
        numbers = [str(row[f"{part}_{unit}"]) for part in parts for unit in ("cpu_s", "mib")]
        growth = ["" if row[name] is None else str(row[name]) for name in ("time_exponent", "memory_exponent")]
        table.add_row(f"{row['size']:,}", *numbers, str(row["peak_mib"]), *growth)
    table.caption = "growth: exponent since the previous size; 1 is linear"
    return table


@app.command()
def cluster(
    cells: Annotated[int, typer.Option(min=2, help="Runs per engine.")] = 6,
    photos: Annotated[int, typer.Option(min=1000, help="Photos to predict.")] = 20_000,
    as_json: AsJson = False,
) -> None:
    """Compare runs and predictions by the local engine with those by a Ray on this machine (extra 'ray')."""
    from benchmarks.cluster import bench_cluster

    result = bench_cluster(cells, photos=photos)
    _print(result, [_labels_table(result)], as_json)


def _labels_table(result: Mapping[str, Mapping[str, Any]]) -> Table:
    table = Table("quantity", "value", box=None)
    for part, values in result.items():
        for name, value in values.items():
            text = f"{value:.3g}" if isinstance(value, float) else str(value)
            table.add_row(f"{part}: {name.replace('_', ' ')}", text)
    return table


def _print(result: Mapping[str, Any], parts: Sequence[Table | str], as_json: bool) -> None:
    """Print the result as JSON, or as tables and sentences."""
    if as_json:
        typer.echo(json.dumps(result))
        return
    for part in parts:
        Console().print(part)


if __name__ == "__main__":
    app()
