"""``semco predict``: classify images with a finished run."""

from __future__ import annotations

from pathlib import Path

import typer
from rich.console import Console

from semco.cli.evaluate import HeadName


def predict(
    run: Path = typer.Argument(..., help="The folder of a finished run, or its model folder."),
    images: list[Path] = typer.Argument(..., help="Image files or folders of images."),
    out: Path = typer.Option(Path("predictions.csv"), help="The CSV file to write."),
    head: HeadName = typer.Option(None, help="The head that predicts.", show_default="the head of the run"),
    classes: str = typer.Option(None, help="Other class names to choose from, separated by commas (semantic head)."),
) -> None:
    """Classify images with a trained model and write class, confidence and second most probable class as CSV."""
    from semco.evaluation.predict import predict_images, write_predictions

    names = None if classes is None else [name.strip() for name in classes.split(",")]
    predictions = predict_images(run, images, None if head is None else head.value, classes=names)
    write_predictions(out, predictions)
    console = Console(stderr=True, soft_wrap=True, markup=False, highlight=False)
    for name in predictions.skipped:
        console.print(f"skipped {name}")
    count, skipped = len(predictions.rows), len(predictions.skipped)
    noun = "image" if count == 1 else "images"
    console.print(f"{count} {noun} classified{f', {skipped} skipped' if skipped else ''}: {out}")
