"""``python -m benchmarks``: speed and memory of the parts, each as ratios within one run."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from benchmarks.rows import Row, table
from semco.cli.app import App

app = App(help="Measure speed and memory, as ratios within one run.", no_args_is_help=True)

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Quick = Annotated[bool, typer.Option(help="Try out the measurement on a tiny network.")]
Threads = Annotated[int, typer.Option(min=1, help="Threads per process.")]
Backbone = Annotated[str, typer.Option(help="The network.")]
Size = Annotated[int, typer.Option(min=8, help="Height and width of the images.")]
Repeats = Annotated[int, typer.Option(min=1, help="Turns; the best and the median of them count.")]


@app.command("all")
def run_all(
    only: Annotated[list[str] | None, typer.Option(help="Measure only this; may be repeated.")] = None,
    out: Annotated[Path | None, typer.Option(help="Draw the growth into this file (png, svg, pdf).")] = None,
) -> None:
    """Measure everything in one go, in about 15 minutes on two cores, and print the tables of docs/speed.md."""
    from benchmarks.everything import measure_everything

    measured = measure_everything(only or (), out, lambda text: typer.echo(text, err=True))
    typer.echo(measured.text())
    if measured.failures:
        raise typer.Exit(1)


@app.command()
def start(repeats: Repeats = 3, as_json: AsJson = False) -> None:
    """Measure the CPU time of `semco --help`, of a plan, and of a run until its first step."""
    from benchmarks.start import bench_start

    _print_rows(bench_start(repeats), as_json)


@app.command()
def augment(size: Size = 32, as_json: AsJson = False) -> None:
    """Time weak and strong views on one core, compared with a Pillow loop that makes the same views."""
    from benchmarks.augment import bench_augment

    _print_rows(bench_augment(size=size), as_json)


@app.command()
def step(quick: Quick = False, threads: Threads = 2, repeats: Repeats = 8, as_json: AsJson = False) -> None:
    """Measure a training step of SemCo+, compared with the authors' way: time, memory, and a profile of its parts."""
    from benchmarks.step import bench_step

    _print_rows(bench_step(threads=threads, repeats=repeats, quick=quick), as_json)


@app.command()
def tune(
    size: Size = 224,
    batch_size: Annotated[int, typer.Option(min=1, help="Labelled images per step; three times as many are not.")] = 16,
    quick: Quick = False,
    threads: Threads = 2,
    repeats: Repeats = 5,
    as_json: AsJson = False,
) -> None:
    """Measure a step of SemCo+ on EfficientNet-Lite0 that trains the heads, the last stages, or all layers."""
    from benchmarks.tune import bench_tune

    rows = bench_tune(image_size=size, batch_size=batch_size, threads=threads, repeats=repeats, quick=quick)
    _print_rows(rows, as_json)


@app.command()
def engines(
    backbone: Backbone = "efficientnet-lite0",
    size: Size = 224,
    threads: Threads = 2,
    repeats: Repeats = 5,
    as_json: AsJson = False,
) -> None:
    """Measure frozen layers in torch, ONNX Runtime and OpenVINO."""
    from benchmarks.engines import bench_engines

    _print_rows(bench_engines(backbone, size, threads, repeats), as_json)


@app.command()
def features(
    backbone: Backbone = "efficientnet-lite0",
    size: Size = 224,
    photos: Annotated[int, typer.Option(min=2, help="Photos to read.")] = 100,
    threads: Threads = 1,
    repeats: Repeats = 3,
    as_json: AsJson = False,
) -> None:
    """Measure the features of photos from their files, compared with a plain loop of Pillow and torch."""
    from benchmarks.features import bench_features

    _print_rows(bench_features(backbone, size, photos, threads, repeats), as_json)


@app.command()
def predict(
    backbone: Backbone = "efficientnet-lite0",
    size: Size = 224,
    photos: Annotated[int, typer.Option(min=1, help="Photos to predict.")] = 32,
    threads: Threads = 1,
    repeats: Repeats = 3,
    as_json: AsJson = False,
) -> None:
    """Measure predictions of photos from their files, compared with a plain loop of Pillow and torch."""
    from benchmarks.predict import bench_predict

    _print_rows(bench_predict(backbone, size, photos, threads, repeats), as_json)


@app.command()
def serve(
    backbone: Backbone = "efficientnet-lite0",
    size: Size = 224,
    requests: Annotated[int, typer.Option(min=1, help="Requests of all clients together.")] = 128,
    threads: Threads = 2,
    as_json: AsJson = False,
) -> None:
    """Measure p50 and p99 of `semco serve` at 1, 8 and 64 clients, on this machine only."""
    from benchmarks.serve import bench_serve

    _print_rows(bench_serve(backbone, size, requests=requests, threads=threads), as_json)


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

    _print_rows(bench_labels(full, size), as_json)


@app.command()
def scale(
    quick: Quick = False,
    threads: Threads = 2,
    repeats: Annotated[int, typer.Option(min=1, help="Steps per size; the best counts.")] = 5,
    most: Annotated[int, typer.Option(min=10_000, help="Entries of the largest pool that is indexed.")] = 1_000_000,
    axis: Annotated[list[str] | None, typer.Option(help="Measure only this quantity; may be repeated.")] = None,
    out: Annotated[Path | None, typer.Option(help="Draw a figure into this file (png, svg, pdf).")] = None,
    as_json: AsJson = False,
) -> None:
    """Measure how time and memory grow with images, pixels, classes, labels, pool and processes."""
    from benchmarks.scale import bench_scale, describe_superlinear_growth, draw_growth, growth_table

    result = bench_scale(threads=threads, repeats=repeats, quick=quick, most=most, axes=axis or ())
    if out is not None:
        draw_growth(result, out)
    _print(result, [growth_table(result), *describe_superlinear_growth(result)], as_json)


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
    _print(result, [_figures({"fit": result})], as_json)


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
    _print(result, [_figures({"data": result})], as_json)


@app.command()
def pools(
    most: Annotated[int, typer.Option(min=1000, help="Entries of the largest pool.")] = 10_000_000,
    as_json: AsJson = False,
) -> None:
    """Measure start-up time and memory of unlabelled pools in parts, from 10,000 entries on; no pixels."""
    from benchmarks.pools import SIZES, bench_pools

    result = bench_pools([size for size in SIZES if size < most] + [most])
    figures = {f"{row['size']:,} entries": {k: v for k, v in row.items() if k != "size"} for row in result["rows"]}
    _print(result, [_figures(figures)], as_json)


@app.command()
def cluster(
    cells: Annotated[int, typer.Option(min=2, help="Runs per engine.")] = 6,
    photos: Annotated[int, typer.Option(min=1000, help="Photos to predict.")] = 20_000,
    as_json: AsJson = False,
) -> None:
    """Compare runs and predictions by the local engine with those by a Ray on this machine (extra 'ray')."""
    from benchmarks.cluster import bench_cluster

    result = bench_cluster(cells, photos=photos)
    _print(result, [_figures(result)], as_json)


def _figures(result: Mapping[str, Mapping[str, Any]]) -> Table:
    figures = Table("quantity", "value", box=None)
    for part, values in result.items():
        for name, value in values.items():
            text = f"{value:.3g}" if isinstance(value, float) else str(value)
            figures.add_row(f"{part}: {name.replace('_', ' ')}", text)
    return figures


def _print_rows(rows: Sequence[Row], as_json: bool) -> None:
    """Print rows as JSON or as a table."""
    typer.echo(json.dumps([row.to_json() for row in rows]) if as_json else table(rows))


def _print(result: Mapping[str, Any], parts: Sequence[Table | str], as_json: bool) -> None:
    """Print the result as JSON, or as tables and sentences."""
    if as_json:
        typer.echo(json.dumps(result))
        return
    for part in parts:
        if isinstance(part, str):
            typer.echo(part)
        else:
            Console().print(part)


if __name__ == "__main__":
    app()
