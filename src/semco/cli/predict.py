"""``semco predict``: classify photos with a finished run."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path

import typer
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from semco.cli.evaluate import HeadName

STANDARD_OUTPUT = "-"


class EngineChoice(StrEnum):
    """What runs the network (`semco.evaluation.engine.EngineName`), repeated here to avoid importing torch."""

    auto = "auto"
    openvino = "openvino"
    onnx = "onnx"
    torch = "torch"


def predict(
    model: Path = typer.Argument(..., help="The folder of a finished run, or an exported model (.onnx)."),
    images: list[str] = typer.Argument(
        ..., help="Image files, folders, lists of paths (.txt, .csv with a column path), or - for paths from stdin."
    ),
    out: str = typer.Option("predictions.csv", help="The file to write: .csv, .jsonl or .parquet; - is stdout."),
    output_format: str = typer.Option(
        None, "--format", help="csv, jsonl or parquet.", show_default="the ending of the file"
    ),
    top: int = typer.Option(2, help="Number of classes per photo."),
    head: HeadName = typer.Option(None, help="The head that predicts.", show_default="the head of the run"),
    classes: str = typer.Option(None, help="Other class names to choose from, separated by commas (semantic head)."),
    min_confidence: float = typer.Option(None, help="Confidence from which an answer counts as sure (0 to 1)."),
    sort_into: Path = typer.Option(
        None, help="Copy the photos into sure/LABEL/ and unsure/LABEL/ of this folder (with --min-confidence)."
    ),
    engine: EngineChoice = typer.Option(
        EngineChoice.auto, help="What computes the backbone; auto: OpenVINO or ONNX Runtime, if it is installed."
    ),
    force: bool = typer.Option(False, "--force", help="Overwrite the file if it exists."),
) -> None:
    """Classify photos and write label, confidence, runner-up, group and the answer of each head."""
    from semco.predict.images import Output, predict_into
    from semco.predict.predictor import load

    file = None if out == STANDARD_OUTPUT else Path(out)
    output = Output(file, output_format, top, min_confidence, sort_into, force)
    names = None if classes is None else [name.strip() for name in classes.split(",")]
    predictor = load(model, None if head is None else head.value, classes=names, engine=engine.value)
    output.check()  # after the model, which is what the user named first
    console = Console(stderr=True, soft_wrap=True, markup=False, highlight=False)
    with Progress(
        SpinnerColumn(), TextColumn("{task.completed} photos"), TimeElapsedColumn(), console=console, transient=True,
        disable=not console.is_terminal,
    ) as progress:  # fmt: skip
        task = progress.add_task("", total=None)
        summary = predict_into(
            output, predictor, images, lambda count: progress.update(task, completed=count), sys.stdin
        )
    for name in summary.skipped:
        console.print(f"skipped {name}")
    noun = "image" if summary.predicted == 1 else "images"
    skipped = f", {summary.unreadable} skipped" if summary.unreadable else ""
    console.print(f"{summary.predicted} {noun} classified{skipped}: {'standard output' if file is None else file}")
