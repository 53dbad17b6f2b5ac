"""``semco data``: check images before a run, convert labels, and the files that runs keep."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.console import Console

from semco.cli.app import App
from semco.cli.labels.display import print_table, progress_bars
from semco.errors import data_size

app = App(
    help="Check a folder of images, convert its labels, list or clear stored features.",
    no_args_is_help=True,
)
LabelFormat = Literal["csv", "label-studio", "fiftyone", "coco"]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


@app.command()
def check(
    path: Annotated[str, typer.Argument(help="A folder of images, or the name of a registered data set.")],
    data_root: Annotated[Path | None, typer.Option(help="The folder of a registered data set.")] = None,
    labels_from: Annotated[Path | None, typer.Option(help="A CSV file with columns path and label.")] = None,
    unlabeled: Annotated[Path | None, typer.Option(help="Another folder of unlabelled images.")] = None,
    out: Annotated[Path | None, typer.Option(help="Write a page with thumbnails to this HTML file.")] = None,
    as_json: AsJson = False,
) -> None:
    """Read every image once: classes, damaged and unusual images, duplicates and leaks, names, advice."""
    from semco.config import DataConfig
    from semco.inspection.check import check_source, lines
    from semco.inspection.page import write_page

    config = DataConfig(source=path, root=data_root, labels_from=labels_from, unlabeled=unlabeled)
    with progress_bars() as report:
        found = check_source(config, report)
    if out is not None:
        write_page(found, out)
    if as_json:
        typer.echo(json.dumps(found.to_json()))
        return
    console = Console(soft_wrap=True, markup=False, highlight=False)
    for line in [*lines(found), *([f"page: {out}"] if out is not None else [])]:
        console.print(line)


@app.command()
def convert(
    path: Annotated[Path, typer.Argument(help="A folder of images, in any layout that runs read.")],
    out: Annotated[Path, typer.Option(help="The file to write.")],
    to: Annotated[LabelFormat, typer.Option(help="The format of the file.")] = "csv",
    labels_from: Annotated[Path | None, typer.Option(help="A file of labels: CSV, or JSON of these tools.")] = None,
) -> None:
    """Write the labels of a folder for Label Studio, FiftyOne (labels.json) or COCO, or as CSV."""
    from semco.config import DataConfig
    from semco.data.sources.label_file import FORMATS, labels_of
    from semco.data.sources.layouts import list_images
    from semco.errors import UserError
    from semco.files import exists, write_text

    if exists(out):
        raise UserError(f"{out} exists; choose another file.")
    labels = labels_of(list_images(path, DataConfig(source=str(path), labels_from=labels_from)), path)
    write_text(out, FORMATS[to](labels))
    typer.echo(f"{len(labels):,} images, {sum(label is not None for _, label in labels):,} labels: {out}")


@app.command()
def cache(
    clear: Annotated[bool, typer.Option("--clear", help="Delete what no process is making.")] = False,
    as_json: AsJson = False,
) -> None:
    """List the stored pixels and outputs of frozen layers, which runs on the same images use again."""
    from semco.data.storage.folders import clear_all, list_all

    removed = clear_all() if clear else []
    arrays = list_all()
    if as_json:
        rows = [{"kind": k, "folder": str(a.folder), "bytes": a.size, "used": a.used} for k, a in arrays]
        typer.echo(json.dumps({"stored": rows, "removed": [str(each.folder) for each in removed]}))
        return
    if clear:
        typer.echo(f"removed {len(removed)} files, {data_size(sum(each.size for each in removed))}")
    used = [time.strftime("%Y-%m-%d %H:%M", time.localtime(array.used)) for _, array in arrays]
    print_table(
        ("kind", "size", "last used", "folder"),
        [(kind, data_size(a.size), when, str(a.folder)) for (kind, a), when in zip(arrays, used, strict=True)],
    )
    typer.echo(f"{len(arrays)} files, {data_size(sum(array.size for _, array in arrays))}")
