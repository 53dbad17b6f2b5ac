"""``semco predict``: classify photos with a finished run."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from semco.cli.evaluate import HeadName
from semco.cli.options import ClusterOptions, names_force, with_options
from semco.cli.running import stops_on_sigterm
from semco.errors import UserError

if TYPE_CHECKING:
    from semco.predict.images import Output, Summary

STANDARD_OUTPUT = "-"
SKIPPED = 3  # the exit code if some of the photos could not be read


# `semco.evaluation.engine.EngineName`, repeated here to avoid importing torch, or Ray.
EngineChoice = Literal["auto", "openvino", "onnx", "torch", "ray"]


@dataclass(frozen=True)
class TableOptions:
    """What is written, and where."""

    out: Annotated[
        str | None,
        typer.Option(
            help="The file to write: .csv, .jsonl or .parquet; - is stdout. With ray: a folder of Parquet files.",
            show_default="predictions.csv, or predictions",
        ),
    ] = None
    output_format: Annotated[
        str | None, typer.Option("--format", help="csv, jsonl or parquet.", show_default="the ending of the file")
    ] = None
    top: Annotated[int, typer.Option(help="Number of classes per photo.")] = 2
    min_confidence: Annotated[
        float | None, typer.Option(help="Confidence from which an answer counts as sure (0 to 1).")
    ] = None
    sort_into: Annotated[
        Path | None,
        typer.Option(help="Copy the photos into sure/LABEL/ and unsure/LABEL/ of this folder (with --min-confidence)."),
    ] = None
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file if it exists.")] = False
    photos_per_part: Annotated[
        int | None,
        typer.Option(min=1, help="Ray: photos per Parquet file, rounded up to whole batches.", show_default="4096"),
    ] = None

    def output(self, on_ray: bool) -> Output:
        """Return where the answers go; refuse what the engine cannot write."""
        from semco.predict.images import Output

        out = self.out or ("predictions" if on_ray else "predictions.csv")
        file = None if out == STANDARD_OUTPUT else Path(out)
        output = Output(file, self.output_format, self.top, self.min_confidence, self.sort_into, self.force)
        if not on_ray and self.photos_per_part is not None:
            raise UserError("--photos-per-part is for --engine ray.")
        if on_ray and (file is None or file.suffix or self.sort_into or self.output_format not in (None, "parquet")):
            raise UserError("--engine ray writes a folder of Parquet files: name it by --out, without --sort-into.")
        return output


@with_options(ClusterOptions, TableOptions)
def predict(
    cluster: ClusterOptions,
    table: TableOptions,
    *,
    model: Path = typer.Argument(..., help="The folder of a finished run, or an exported model (.onnx)."),
    images: list[str] = typer.Argument(
        ...,
        help="Image files, folders, @FILE (a list of paths, or .csv with a column path), or - for paths from stdin.",
    ),
    head: HeadName | None = typer.Option(None, help="The head that predicts.", show_default="the head of the run"),
    classes: str = typer.Option(None, help="Other class names to choose from, separated by commas (semantic head)."),
    none_of_these: float = typer.Option(
        None,
        help="Answer 'none of these' for photos unlike the classes; 0.05 also rejects 5 % of photos of the classes.",
    ),
    engine: EngineChoice = typer.Option(
        "auto",
        help="What computes the backbone; auto: OpenVINO or ONNX Runtime, if it is installed; ray: many machines.",
    ),
) -> None:
    """Classify photos and write label, confidence, runner-up, group and the answer of each head."""
    from semco.evaluation.thresholds import describe_share
    from semco.predict.images import predict_into
    from semco.predict.photos import check_photos
    from semco.predict.predictor import load
    from semco.predict.ray_actors import PHOTOS_PER_PART, Model, predict_parts

    output = table.output(engine == "ray")
    names = None if classes is None else [name.strip() for name in classes.split(",")]
    console = Console(stderr=True, soft_wrap=True, markup=False, highlight=False)
    if engine == "ray":
        per_part = table.photos_per_part or PHOTOS_PER_PART
        with show_count(console) as report:
            on_ray = cluster.on_ray()
            summary = predict_parts(
                output, Model(model, head, names, none_of_these), images, on_ray, report, sys.stdin, per_part
            )
    else:
        cluster.refuse()
        predictor = load(model, head, classes=names, engine=engine, none_of_these=none_of_these)
        check_photos(images)  # in the order in which the user named them: the model, the photos, the table
        with names_force():
            output.check()
        with stops_on_sigterm(), show_count(console) as report:
            summary = predict_into(output, predictor, images, report, sys.stdin)
    show_summary(console, summary, output.file)
    if none_of_these is not None:
        console.print(f"{summary.none_of_these} of them are none of these; this {describe_share(none_of_these)}")
    if summary.unreadable:
        raise typer.Exit(SKIPPED)


@contextmanager
def show_count(console: Console) -> Iterator[Callable[[int], None]]:
    """Show in a terminal how many photos are done; yield the function that is called with their number."""
    with Progress(
        SpinnerColumn(), TextColumn("{task.completed} photos"), TimeElapsedColumn(), console=console, transient=True,
        disable=not console.is_terminal,
    ) as progress:  # fmt: skip
        task = progress.add_task("", total=None)
        yield lambda count: progress.update(task, completed=count)


def show_summary(console: Console, summary: Summary, file: Path | None) -> None:
    """Print how many photos were predicted, and which could not be read."""
    for name in summary.skipped:
        console.print(f"skipped {name}")
    noun = "image" if summary.predicted == 1 else "images"
    skipped = f", {summary.unreadable} skipped" if summary.unreadable else ""
    console.print(f"{summary.predicted} {noun} classified{skipped}: {'standard output' if file is None else file}")
