"""``semco predict``: labels for images, from a finished run."""

from __future__ import annotations

from pathlib import Path

import typer
from rich.console import Console

from semco.cli.evaluate import HeadName


def predict(
    run: Path = typer.Argument(..., help="A finished run folder, or its model folder."),
    images: list[Path] = typer.Argument(..., help="Image files, or folders of them."),
    out: Path = typer.Option(Path("predictions.csv"), help="The CSV file to write."),
    head: HeadName = typer.Option(None, help="Which head answers; the run's own choice if not given."),
    classes: str = typer.Option(None, help="Choose among these names, seen in training or not: a,b,c (semantic head)."),
) -> None:
    """Label images with a trained model: label, confidence and runner-up of each, as CSV."""
    from semco.evaluation.predict import predict_images, write_predictions

    names = None if classes is None else [name.strip() for name in classes.split(",")]
    predictions = predict_images(run, images, None if head is None else head.value, classes=names)
    write_predictions(out, predictions)
    told = Console(stderr=True, soft_wrap=True, markup=False, highlight=False)
    for name in predictions.skipped:
        told.print(f"skipped {name}")
    count, skipped = len(predictions.rows), len(predictions.skipped)
    noun = "image" if count == 1 else "images"
    told.print(f"{count} {noun} labelled{f', {skipped} skipped' if skipped else ''}: {out}")
